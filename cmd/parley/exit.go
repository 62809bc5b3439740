package main

import (
	"context"
	"errors"
	"net/http"

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
