package client

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"syscall"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/transport"
)

// DialStage is how far a dial had come when it failed.
type DialStage string

// The stages of a dial, in their order.
const (
	StageTarget     DialStage = "target"     // what was to be dialled is not well-formed
	StageConnect    DialStage = "connect"    // the command did not start, or the server was not reached
	StageDiscover   DialStage = "discover"   // it was not found out which revision the server speaks
	StageInitialize DialStage = "initialize" // no session began
	StageRequire    DialStage = "require"    // the server lacks a capability of Dialer.Require
)

// DialError is the error of Dial, and of a request that had to dial anew: which server,
// how far the dial had come, why it failed, and what to do about it. Err is what
// happened, for errors.Is and errors.As: an [ErrRevision], a *[MissingCapabilitiesError],
// a *call.StatusError, a *call.TimeoutError, an exec.ErrNotFound …
type DialError struct {
	Target string // without secrets
	Stage  DialStage
	Err    error
}

// Error implements the error interface.
func (e *DialError) Error() string {
	text := fmt.Sprintf("dial %s: %s", e.Target, e.Err)
	if advice := e.Advice(); advice != "" {
		text += ": " + advice
	}
	return text
}

// Unwrap returns what happened.
func (e *DialError) Unwrap() error { return e.Err }

// Advice says what to do about the error, in a few words for people; empty if the error
// says so itself, or nothing is known.
func (e *DialError) Advice() string {
	var status *call.StatusError
	var host *net.DNSError
	var unknown x509.UnknownAuthorityError
	var exit *transport.ExitError
	switch {
	case errors.Is(e.Err, exec.ErrNotFound):
		return "install the command, or give its path"
	case errors.Is(e.Err, syscall.ECONNREFUSED):
		return "is the server running?"
	case errors.As(e.Err, &host):
		return "is the name of the host right?"
	case errors.Is(e.Err, http.ErrSchemeMismatch):
		return "write http:// if the server does without TLS"
	case errors.As(e.Err, &unknown):
		return "trust its certificate in Dialer.HTTPClient, if you do"
	case errors.As(e.Err, &status):
		return adviceOn(status.Status)
	case errors.Is(e.Err, errExited), errors.As(e.Err, &exit):
		return "is it an MCP server, over standard input and output?"
	case e.Stage == StageInitialize && errors.Is(e.Err, call.ErrConnectionLost):
		return "what it has written to standard error may tell why"
	}
	return ""
}

func adviceOn(status int) string {
	switch {
	case status == http.StatusUnauthorized:
		return "send credentials that the server accepts"
	case status == http.StatusForbidden:
		return "these credentials do not give access"
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed:
		return "is this the URL of an MCP endpoint?"
	case status == http.StatusTooManyRequests, status >= 500:
		return "try again later"
	}
	return ""
}

// staged is an error with the stage in which it happened.
type staged struct {
	stage DialStage
	error
}

func (e *staged) Unwrap() error { return e.error }

// at notes the stage in which an error happened. One that an inner step has noted counts
// for less.
func at(stage DialStage, err error) error {
	if err == nil {
		return nil
	}
	return &staged{stage, err}
}

// dialError makes a DialError of what has failed a dial.
func dialError(target Target, err error) error {
	e := &DialError{Target: target.String(), Stage: StageConnect, Err: err}
	var s *staged
	if errors.As(err, &s) && !errors.Is(err, call.ErrNotSent) {
		e.Stage = s.stage
	}
	return e
}
