package main

import (
	"fmt"
	"net/http"
	"os"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/recording"
	"github.com/parley-mcp/parley/internal/dial/httpclient"
)

// recordFlags are the flags for a recording.
type recordFlags struct {
	path     string
	noRedact bool
	open     *recorder // nil: not yet, or no recording
}

// add adds the flags to a command. The recording ends with the command.
func (f *recordFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.path, "record", "", "write a recording to a new `file`")
	cmd.Flags().BoolVar(&f.noRedact, "no-redact", false, "keep credentials and other secrets in the recording")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		if incomplete := f.open.close(); incomplete != nil {
			cmd.PrintErrln("parley: warning: " + incomplete.Error())
		}
		return err
	}
}

// recorder writes a recording. A nil recorder writes nothing.
type recorder struct {
	*recording.Writer
	file *os.File
}

// start creates the file of --record, if there is one.
func (f *recordFlags) start(target string) (*recorder, error) {
	if f.path == "" {
		return nil, nil
	}
	w, file, err := recording.Create(f.path, recording.WriterOptions{Program: "parley " + version(), Target: target, KeepSecrets: f.noRedact})
	if err != nil {
		return nil, err
	}
	f.open = &recorder{w, file}
	return f.open, nil
}

// report writes an event. The method close returns the error of a write that fails.
func (r *recorder) report(e recording.Event) {
	if r != nil {
		_ = r.Write(e)
	}
}

// close closes the file. It returns an error if the recording is incomplete.
func (r *recorder) close() error {
	if r == nil {
		return nil
	}
	err := r.Err()
	if closed := r.file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("the recording is incomplete: %w", err)
	}
	return nil
}

// recordedTarget returns the target in the header of a recording. A URL is complete, so that parley replay finds the requests
// to it. The recording replaces its secrets.
func recordedTarget(target client.Target) string {
	if at, ok := target.(*client.HTTPTarget); ok {
		return at.URL
	}
	return target.String()
}

// observe records the messages of a Dialer, if there is a file.
func (f *recordFlags) observe(d *client.Dialer, target client.Target) error {
	r, err := f.start(recordedTarget(target))
	if r == nil {
		return err
	}
	if _, ok := target.(*client.HTTPTarget); ok {
		d.HTTPClient = &http.Client{Transport: &recording.Transport{Base: httpclient.NewTransport(), Report: r.report}}
		return nil
	}
	trace := d.Trace
	d.Trace = func(sent bool, message []byte) {
		r.report(recording.StdioMessage(sent, message))
		if trace != nil {
			trace(sent, message)
		}
	}
	return nil
}
