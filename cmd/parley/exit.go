package main

import (
	"context"
	"errors"

	"github.com/parley-mcp/parley/client"
)

// The exit codes beside 0, which means success and nothing else.
const (
	exitOther       = 1   // wrong usage, and everything that is not below
	exitUnreachable = 4   // the server could not be reached, or did not answer in time
	exitToolError   = 5   // the tool was called and reported that it failed
	exitLogin       = 6   // the server wants a login, or one that grants more
	exitInterrupted = 130 // by a signal
)

const exitCodesHelp = `Exit codes: 0 success, 5 the tool reported an error, 4 the server was not reached
or did not answer in time, 6 it wants a login (see parley login), 130 interrupted,
1 anything else.`

// codeError is an error with the exit code that it leads to.
type codeError struct {
	code int
	err  error
}

func (e *codeError) Error() string { return e.err.Error() }

func (e *codeError) Unwrap() error { return e.err }

// saidError is an error that the user has been told of already.
type saidError struct{ err error }

func (e *saidError) Error() string { return e.err.Error() }

func (e *saidError) Unwrap() error { return e.err }

// unreachable marks errors of dialling.
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
