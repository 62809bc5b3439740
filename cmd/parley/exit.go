package main

import (
	"context"
	"errors"

	"github.com/parley-mcp/parley/client"
)

// The exit codes other than 0 for success.
const (
	exitOther       = 1   // invalid usage, and all other errors
	exitUnreachable = 4   // the server cannot be reached or does not respond in time
	exitToolError   = 5   // the tool returned an error
	exitLogin       = 6   // the server requires a login, or a login with more scopes
	exitInterrupted = 130 // a signal ended the command
)

const exitCodesHelp = `Exit codes: 0 success, 1 other errors, 4 the server cannot be reached or does not respond in
time, 5 the tool returned an error, 6 the server requires a login (see parley login),
130 interrupted.`

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

func exitCode(ctx context.Context, err error) int {
	var coded *codeError
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil:
		return exitInterrupted
	case errors.As(err, new(*loginError)):
		return exitLogin
	case errors.As(err, &coded):
		return coded.code
	case errors.Is(err, client.ErrConnectionLost), errors.Is(err, context.DeadlineExceeded):
		return exitUnreachable
	}
	return exitOther
}
