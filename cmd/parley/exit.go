package main

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
)

// The exit codes other than 0 for success.
const (
	exitOther        = 1
	exitUnreachable  = 4
	exitToolError    = 5
	exitUnauthorized = 6
	exitInterrupted  = 130
)

// exitCodesKey is the annotation with the exit codes of a command that differ from the table.
const exitCodesKey = "exit codes"

// exitCodesHelp ends the help of each command.
const exitCodesHelp = `
Exit Codes:
    0  success
    1  invalid usage, and all other errors
    4  the server cannot be reached or does not respond in time
    5  the tool returned an error
    6  the server requires a login or other credentials, or does not accept them
  130  interrupted
`

// addExitCodes adds the exit codes to the help of a command and its subcommands.
func addExitCodes(root *cobra.Command) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		help(cmd, args)
		text := exitCodesHelp
		if own, differs := cmd.Annotations[exitCodesKey]; differs {
			text = own
		}
		_, _ = io.WriteString(cmd.OutOrStdout(), text) // help returns no error either
	})
}

// codeError is an error that determines the exit code.
type codeError struct {
	code int
	err  error
}

func (e *codeError) Error() string { return e.err.Error() }

func (e *codeError) Unwrap() error { return e.err }

// reportedError is an error that has already been printed.
type reportedError struct{ err error }

func (e *reportedError) Error() string { return e.err.Error() }

func (e *reportedError) Unwrap() error { return e.err }

// unreachable gives an error of dialling its exit code.
func unreachable(err error) error { return &codeError{exitUnreachable, err} }

// isUnauthorized reports whether a server requires credentials, or does not accept those of the request. The error of an
// authorization server that cannot be reached is another.
func isUnauthorized(err error) bool {
	var status *call.StatusError
	switch {
	case errors.As(err, new(*loginError)):
		return true
	case errors.Is(err, client.ErrUnauthorized):
		return !errors.As(err, new(*tokenError))
	}
	return errors.As(err, &status) && (status.Status == http.StatusUnauthorized || status.Status == http.StatusForbidden)
}

func exitCode(ctx context.Context, err error) int {
	var coded *codeError
	var ofServer exitStatus
	switch {
	case err == nil:
		return 0
	case errors.As(err, &ofServer):
		return int(ofServer)
	case ctx.Err() != nil:
		return exitInterrupted
	case isUnauthorized(err):
		return exitUnauthorized
	case errors.As(err, &coded):
		return coded.code
	case errors.Is(err, client.ErrConnectionLost), errors.Is(err, context.DeadlineExceeded):
		return exitUnreachable
	}
	return exitOther
}
