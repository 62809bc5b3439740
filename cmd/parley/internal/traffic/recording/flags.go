package recording

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
)

// Flags are the flags for a recording.
type Flags struct {
	path     string
	NoRedact bool
	open     *Writer // nil: not yet, or no recording
	note     func(format string, args ...any)
}

// Add adds the flags to a command. The recording ends with the command.
func (f *Flags) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.path, "record", "",
		"write a recording to this `file`; if it exists, a number is added to the name")
	f.note = cmd.PrintErrf
	cmd.Flags().BoolVar(&f.NoRedact, "no-redact", false, "keep credentials and other secrets in the recording")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		if f.open != nil {
			if incomplete := f.open.Close(); incomplete != nil {
				cmd.PrintErrln("parley: warning: the recording is incomplete: " + incomplete.Error())
			}
		}
		return err
	}
}

// Start creates the file of --record, if there is one. Otherwise the Writer is nil. SecretHeaders is a field of
// WriterOptions.
func (f *Flags) Start(target string, secretHeaders func() []string) (w *Writer, err error) {
	if f.path != "" {
		w, err = Create(f.path, WriterOptions{Program: "parley " + program.Version(), Target: target,
			KeepSecrets: f.NoRedact, SecretHeaders: secretHeaders})
		if f.open = w; w != nil && w.Path() != f.path {
			f.note("parley: note: %s exists; recording to %s\n", terminal.Line(f.path), terminal.Line(w.Path()))
		}
	}
	return w, err
}

// RecordedTarget returns the target in the header of a recording. A URL is complete, because the recording replaces its
// secrets.
func RecordedTarget(target client.Target) string {
	if at, ok := target.(*client.HTTPTarget); ok {
		return at.URL
	}
	return target.String()
}

// Observe records the messages of a Dialer, if there is a file. SecretHeaders is a field of WriterOptions.
func (f *Flags) Observe(d *client.Dialer, target client.Target, secretHeaders func() []string) error {
	r, err := f.Start(RecordedTarget(target), secretHeaders)
	if r == nil {
		return err
	}
	if _, ok := target.(*client.HTTPTarget); ok {
		d.HTTPClient = &http.Client{Transport: &Transport{Base: client.NewTransport(), Report: r.Report}}
		return nil
	}
	trace := d.Trace
	d.Trace = func(sent bool, message []byte) {
		r.Report(StdioMessage(sent, message))
		if trace != nil {
			trace(sent, message)
		}
	}
	return nil
}

// Tracer prints messages, one per line: → for sent or ← for received, the name of the peer,
// and the JSON of the message. It does not print headers, because they contain secrets.
type Tracer struct {
	mu sync.Mutex
	w  io.Writer
}

func NewTracer(w io.Writer) *Tracer { return &Tracer{w: w} }

func (t *Tracer) Print(sent bool, peer string, message []byte) {
	arrow := "←"
	if sent {
		arrow = "→"
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.w, "%s %s %s\n", arrow, peer, terminal.Message(message))
}

// Peer returns a function for client.Dialer.Trace.
func (t *Tracer) Peer(name string) func(sent bool, message []byte) {
	return func(sent bool, message []byte) { t.Print(sent, name, message) }
}

// Event prints the message of an event, if it has one. The messages of this side are the sent ones.
func (t *Tracer) Event(this Side, peer string, e Event) {
	if len(bytes.TrimSpace(e.Message)) > 0 {
		t.Print(e.From == this, peer, e.Message)
	}
}
