// Package traffic implements the commands that write and use recordings: tap and mock.
package traffic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/completion"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/failure"
	"github.com/parley-mcp/parley/cmd/parley/internal/serve/endpoint"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/traffic/recording"
	"github.com/parley-mcp/parley/transport"
)

// tapFlags are the flags of parley tap.
type tapFlags struct {
	config  dialing.ConfigFlags
	addr    string
	allow   endpoint.AllowFlags
	headers []string
	quiet   bool
	record  recording.Flags
}

// tapExitCodes ends the help of parley tap.
const tapExitCodes = "0 success, 1 invalid usage and other errors, 4 the server cannot be started. With a command, " +
	"the exit " +
	"code is that of the server: 128 and the number of the signal if a signal has ended it"

func NewTap() *cobra.Command {
	var flags tapFlags
	cmd := &cobra.Command{
		Use:   "tap TARGET [flags]",
		Short: "Forward the traffic of a client and a server, and show it",
		Long: `Forward the traffic between a client and a server unchanged, and print every message to stderr:
→ to the server, ← from the server.

With a command, parley is a server on standard input and output for a client that starts it: write parley tap -- before
the command in the client's configuration. With a URL, parley listens on --addr, and the client connects to the URL
that parley prints. A client cannot log in through parley; send credentials with --header. parley help testing
describes --record.

` + dialing.TargetHelpInherit,
		Example: `
parley tap -- npx -y @modelcontextprotocol/server-everything
parley tap --record session.jsonl -- ./my-server
parley tap https://example.com/mcp --addr 127.0.0.1:8080
parley tap notes`,
		Annotations: map[string]string{program.ExitCodesKey: tapExitCodes},
		RunE: dialing.WithTarget(func(cmd *cobra.Command, target []string) error {
			switch {
			case cmd.ArgsLenAtDash() >= 0:
				return tapCommand(cmd, &flags, target,
					transport.CommandOptions{Path: target[0], Args: target[1:], InheritEnv: true})
			case dialing.IsURL(target[0]):
				return tapURL(cmd, &flags, target[0], nil)
			}
			return tapServer(cmd, &flags, target[0])
		}),
	}
	flags.config.Add(cmd)
	cmd.Flags().StringVar(&flags.addr, "addr", "127.0.0.1:0", "for a server at a URL: listen on this `address`")
	flags.allow.Add(cmd)
	cmd.Flags().VarP((*program.Repeated)(&flags.headers), "header", "H", "HTTP `header`, as 'Name: value' (repeatable)")
	cmd.Flags().BoolVarP(&flags.quiet, "quiet", "q", false, "do not print the messages")
	flags.record.Add(cmd)
	completion.Add(cmd, &flags.config, completion.Target, completion.Nothing)
	return cmd
}

// tapServer forwards to a server of a configuration file.
func tapServer(cmd *cobra.Command, flags *tapFlags, name string) error {
	target, err := flags.config.Target(cmd, name)
	if err != nil {
		return err
	}
	switch t := target.(type) {
	case *client.CommandTarget:
		return tapCommand(cmd, flags, []string{name}, t.CommandOptions)
	case *client.HTTPTarget:
		return tapURL(cmd, flags, t.URL, t.Header)
	}
	return fmt.Errorf("cannot forward to %s", target)
}

// reporter returns a function that prints and records events.
func (f *tapFlags) reporter(cmd *cobra.Command, r *recording.Writer) func(recording.Event) {
	t := recording.NewTracer(cmd.ErrOrStderr())
	return func(e recording.Event) {
		r.Report(e)
		if !f.quiet {
			t.Event(recording.Client, "server", e)
		}
	}
}

// tapCommand forwards to a program. words name it in a recording.
func tapCommand(cmd *cobra.Command, flags *tapFlags, words []string, server transport.CommandOptions) error {
	for _, name := range []string{"addr", "header", "allow-host", "allow-origin"} {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s requires a server at a URL", name)
		}
	}
	shown := words[:1]
	if flags.record.NoRedact { // arguments can have secrets
		shown = words
	}
	r, err := flags.record.Start(strings.Join(shown, " "), nil)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 8)
	forwarded := []os.Signal{syscall.SIGTERM, syscall.SIGHUP}
	if !terminal.Is(cmd.InOrStdin()) { // a terminal sends an interrupt to the server, too
		forwarded = append(forwarded, os.Interrupt)
	}
	signal.Notify(signals, forwarded...)
	defer signal.Stop(signals)
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE) // a write to a client that has gone returns an error
	defer signal.Stop(broken)
	c := tapProgram{
		Server: server, In: os.Stdin, Out: os.Stdout, Stderr: os.Stderr, Signals: signals,
		Report: flags.reporter(cmd, r),
	}
	code, err := c.Run()
	if err != nil {
		return failure.Unreachable(fmt.Errorf("cannot start the server: %w", err))
	}
	if code != 0 {
		return failure.Reported(failure.ServerExit(code))
	}
	return nil
}

// tapURL forwards to a URL. It adds the headers of a configuration, and the ones of --header.
func tapURL(cmd *cobra.Command, flags *tapFlags, text string, configured http.Header) error {
	target, err := url.Parse(text)
	if err != nil || target.Host == "" || target.User != nil {
		return fmt.Errorf("invalid URL %q; write https://HOST/PATH, and credentials with --header", client.URL(text))
	}
	header, err := dialing.ParseHeaders(flags.headers)
	if err != nil {
		return err
	}
	for name, values := range configured {
		if header[name] == nil {
			header[name] = values
		}
	}
	if err := flags.allow.Check(); err != nil {
		return err
	}
	listener, err := endpoint.ListenTCP(cmd, "--addr", flags.addr)
	if err != nil {
		return err
	}
	defer listener.Close()
	if !endpoint.IsLoopback(listener) {
		cmd.PrintErrf("parley: warning: other machines can connect to %s\n", listener.Addr())
	}
	r, err := flags.record.Start(text, flags.config.CallerHeaders())
	if err != nil {
		return err
	}
	proxy := &tapProxy{
		Target: target, Header: header, Hosts: endpoint.WithLocal(flags.allow.Hosts, listener),
		Origins:   flags.allow.Origins,
		Transport: client.NewTransport(), Report: flags.reporter(cmd, r),
	}
	h := &http.Server{
		Handler: proxy.Handler(), ReadHeaderTimeout: endpoint.ReadHeaderTimeout, IdleTimeout: endpoint.IdleTimeout,
		MaxHeaderBytes: 256 << 10,
		ErrorLog:       log.New(io.Discard, "", 0),
	}
	here := *target
	here.Scheme, here.Host = "http",
		strings.TrimSuffix(strings.TrimPrefix(endpoint.URLOf(listener), "http://"), endpoint.Path)
	cmd.PrintErrf("parley: connect the client to %s\n", here.String())
	served := make(chan error, 1)
	go func() { served <- h.Serve(listener) }()
	select {
	case err = <-served:
	case <-cmd.Context().Done():
		ending, cancel := context.WithTimeout(context.Background(), endpoint.ShutdownTimeout)
		defer cancel()
		_ = h.Close() // streams do not end by themselves
		_ = h.Shutdown(ending)
		if err = <-served; errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
	}
	return err
}
