package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/cmd/parley/internal/output"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/jsonrpc"
)

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

// printError writes the error of a command: a line of text, a line of JSON, or a YAML document. It sanitises text that
// comes from a server. It does not write errors that are already printed.
func printError(w io.Writer, err error, code int, format output.Format) {
	if errors.As(err, new(*reportedError)) {
		return
	}
	r := &errorReport{Code: code, Data: dataOf(err)}
	if r.Message, r.Advice = explained(err); errors.Is(err, context.Canceled) {
		r = &errorReport{Code: code, Message: "interrupted"}
	}
	if format != output.Table && output.WriteEvent(w, format, r) == nil {
		return
	}
	fmt.Fprintln(w, "parley: "+terminal.Line(r.text()))
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
	var login *loginError
	if errors.As(err, &reported) {
		data.Error = reported
	}
	if errors.As(err, &status) {
		data.Status = status.Status
	}
	if errors.As(err, &login) {
		data.Login, data.Scopes = login.server, login.missing
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

// formatOfErrors returns the output format for the error of a command. It also finds --output after an invalid flag, at
// which the command has stopped to parse its arguments.
func formatOfErrors(cmd *cobra.Command, args []string) output.Format {
	if f := format(cmd); f != output.Table {
		return f
	}
	found := output.Table
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	flags.VarP(&found, outputFlag, "o", "")
	_ = flags.Parse(args) // the command has reported the error
	return found
}
