// Package failure explains errors to the user, and decides the exit code of a command.
package failure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/cmd/parley/internal/login/credstore"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/form"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/output"
	"github.com/parley-mcp/parley/jsonrpc"
)

// The exit codes other than 0 for success.
const (
	ExitOther        = 1
	ExitUnreachable  = 4
	ExitToolError    = 5
	ExitUnauthorized = 6
	ExitInterrupted  = 130
)

// codeError is an error that determines the exit code.
type codeError struct {
	code int
	err  error
}

func (e *codeError) Error() string { return e.err.Error() }

func (e *codeError) Unwrap() error { return e.err }

// reportedError is an error that the text output of the command has.
type reportedError struct{ err error }

func (e *reportedError) Error() string { return e.err.Error() }

func (e *reportedError) Unwrap() error { return e.err }

// Unreachable gives an error of dialling its exit code.
func Unreachable(err error) error { return WithCode(ExitUnreachable, err) }

// WithCode gives an error an exit code.
func WithCode(code int, err error) error { return &codeError{code, err} }

// Reported marks an error as one that the text output of the command has. [Print] then writes it only as JSON or YAML.
func Reported(err error) error { return &reportedError{err} }

// Mistaken returns the error for what a server has reported if the cause is a mistake of the user, which mistake
// describes.
func Mistaken(mistake, reported error) error { return &mistakenError{mistake, reported} }

type mistakenError struct{ mistake, reported error }

func (e *mistakenError) Error() string { return e.mistake.Error() }

func (e *mistakenError) Unwrap() []error { return []error{e.mistake, e.reported} }

// WithTimeoutFlag marks an error of a command with the flag --timeout that the user has not set. If a time-out has
// ended a request, the advice names the flag.
func WithTimeoutFlag(err error) error {
	if errors.As(err, new(*call.TimeoutError)) {
		return &timeoutError{err}
	}
	return err
}

type timeoutError struct{ error }

func (e *timeoutError) Unwrap() error { return e.error }

// ServerExit is the exit code of the server of parley tap, with which parley exits, too.
type ServerExit int

func (e ServerExit) Error() string { return fmt.Sprintf("the server has exited with code %d", int(e)) }

// isUnauthorized reports whether a server requires credentials, or does not accept those of the request. The error of
// an authorization server that cannot be reached is another.
func isUnauthorized(err error) bool {
	var status *call.StatusError
	switch {
	case errors.As(err, new(*credstore.LoginError)):
		return true
	case errors.Is(err, call.ErrUnauthorized):
		return !errors.As(err, new(*credstore.TokenError))
	}
	return errors.As(err, &status) && (status.Status == http.StatusUnauthorized ||
		status.Status == http.StatusForbidden)
}

func Code(ctx context.Context, err error) int {
	var coded *codeError
	var ofServer ServerExit
	switch {
	case err == nil:
		return 0
	case errors.As(err, &ofServer):
		return int(ofServer)
	case ctx.Err() != nil, errors.Is(err, form.ErrInterrupted): // a question reads Ctrl-C, so there is no signal
		return ExitInterrupted
	case isUnauthorized(err):
		return ExitUnauthorized
	case errors.As(err, &coded):
		return coded.code
	case errors.Is(err, call.ErrConnectionLost), errors.Is(err, context.DeadlineExceeded):
		return ExitUnreachable
	}
	return ExitOther
}

// errorReport is the error of a command, as JSON.
type errorReport struct {
	Code    int           `json:"code"` // the exit code
	Message string        `json:"message"`
	Advice  string        `json:"advice,omitempty"` // what the user can do
	Data    *reportedData `json:"data,omitempty"`
}

// reportedData is what a server has reported.
type reportedData struct {
	Error  *jsonrpc.Error `json:"error,omitempty"`
	Status int            `json:"httpStatus,omitempty"`
	Login  string         `json:"login,omitempty"`  // the URL for parley login
	Scopes []string       `json:"scopes,omitempty"` // that the login does not grant
}

// Print writes the error of a command: a line of text, a line of JSON, or a YAML document. It sanitises text that
// comes from a server.
func Print(w io.Writer, err error, code int, format output.Format) {
	if format == output.Table && errors.As(err, new(*reportedError)) {
		return
	}
	r := &errorReport{Code: code, Data: dataOf(err)}
	if r.Message, r.Advice = Explained(err); errors.Is(err, context.Canceled) || errors.Is(err, form.ErrInterrupted) {
		r = &errorReport{Code: code, Message: "interrupted"}
	}
	r.Message, r.Advice = bounded(r.Message), bounded(r.Advice)
	if format != output.Table && output.WriteEvent(w, format, r) == nil {
		return
	}
	fmt.Fprintln(w, "parley: "+terminal.Line(r.text()))
}

// maxText is the maximum length of a message and of an advice, in bytes: both can have names and texts of a server,
// such as the thousands of arguments of a tool.
const maxText = 4 << 10

// bounded returns the beginning and the end of a text that is too long.
func bounded(text string) string {
	if len(text) <= maxText {
		return text
	}
	begin, end := text[:maxText/2], text[len(text)-maxText/2:]
	return fmt.Sprintf("%s … (%d bytes) … %s", strings.ToValidUTF8(begin, ""), len(text)-len(begin)-len(end),
		strings.ToValidUTF8(end, ""))
}

// text returns the message and the advice.
func (r *errorReport) text() string {
	if r.Advice == "" {
		return r.Message
	}
	return r.Message + "; " + r.Advice
}

// dataOf returns what a server has reported, or nil.
func dataOf(err error) *reportedData {
	data := new(reportedData)
	var reported *jsonrpc.Error
	var status *call.StatusError
	var login *credstore.LoginError
	if errors.As(err, &reported) {
		data.Error = reported
	}
	if errors.As(err, &status) {
		data.Status = status.Status
	}
	if errors.As(err, &login) {
		data.Login, data.Scopes = login.Server, login.Missing
	}
	if data.Error == nil && data.Status == 0 && data.Login == "" {
		return nil
	}
	return data
}

// splitAdvice splits the text of an error of this program into the message and the advice after the first semicolon.
func splitAdvice(text string) (message, advice string) {
	message, advice, _ = strings.Cut(text, "; ")
	return message, advice
}

// FormatOf returns the output format for the error of a command. It also finds --output after an invalid flag, at
// which the command has stopped to parse its arguments.
func FormatOf(cmd *cobra.Command, args []string) output.Format {
	if f := output.Of(cmd); f != output.Table {
		return f
	}
	found := output.Table
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	flags.VarP(&found, output.Flag, "o", "")
	_ = flags.Parse(args) // the command has reported the error
	return found
}
