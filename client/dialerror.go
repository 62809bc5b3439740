package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/dial/httpclient"
	"github.com/parley-mcp/parley/transport"
)

// Stage is the step in which a Dial failed.
type Stage string

// The stages of a Dial, in order.
const (
	StageTarget     Stage = "target"     // checks the target and the fields of the Dialer
	StageConnect    Stage = "connect"    // starts the command or connects to the server
	StageDiscover   Stage = "discover"   // finds out which revision the server supports
	StageInitialize Stage = "initialize" // is the handshake of a session
)

// DialError is the error of Dial, and of a request that could not reconnect.
type DialError struct {
	Target string // the name of the target, without secrets
	Stage  Stage  // the step that failed
	// Err is the cause. It may wrap call.ErrRevision, call.ErrUnauthorized, a *call.StatusError, a *call.TimeoutError,
	// a *transport.ExitError, exec.ErrNotFound or an error of packages net, crypto/tls and crypto/x509.
	Err error

	command bool     // the target is a command; its standard error may show the cause
	fixed   bool     // Dialer.Revision allows only one revision
	endings *endings // see Wait
}

// Error returns the target, the cause and the advice.
func (e *DialError) Error() string {
	text := fmt.Sprintf("dial %s: %s", e.Target, e.Err)
	if advice := e.Advice(); advice != "" {
		text += "; " + advice
	}
	return text
}

// Unwrap returns e.Err.
func (e *DialError) Unwrap() error { return e.Err }

// Wait returns when all connections of the Dial are closed and all its processes have ended, after five seconds at the
// latest. Dial itself does not wait for that, because its context may have ended. If a request of a Client returned the
// DialError, Client.Close waits, too.
func (e *DialError) Wait() { _ = e.endings.await(context.Background()) }

// Advice returns what a user can do about the error, in a few words. It is empty if the
// cause states it, or if it is unknown.
func (e *DialError) Advice() string {
	var status *call.StatusError
	var host *net.DNSError
	var certificate *tls.CertificateVerificationError
	var exit *transport.ExitError
	var silence *silenceError
	switch {
	case errors.As(e.Err, &silence):
		return silence.advice()
	case errors.Is(e.Err, exec.ErrNotFound):
		return "install the command or give its full path"
	case e.Stage == StageConnect && errors.Is(e.Err, fs.ErrPermission):
		return "make the file of the command executable"
	case errors.Is(e.Err, syscall.ECONNREFUSED):
		return "check that the server is running, and its port"
	case errors.Is(e.Err, syscall.ENETUNREACH), errors.Is(e.Err, syscall.EHOSTUNREACH):
		return "check the network connection"
	case errors.As(e.Err, &host):
		return "check the host name"
	case errors.Is(e.Err, http.ErrSchemeMismatch):
		return "use http:// if the server does not use TLS"
	case errors.As(e.Err, &certificate):
		return adviceOnCertificate(certificate)
	case errors.Is(e.Err, httpclient.ErrNotMCP):
		return adviceOnEndpoint
	case errors.As(e.Err, &status):
		return adviceOnStatus(status.Status)
	case errors.Is(e.Err, errExited), errors.As(e.Err, &exit):
		return "check that the command is an MCP server on standard input and output, and see its standard error"
	case e.Stage == StageInitialize && e.command && errors.Is(e.Err, call.ErrConnectionLost):
		return "see the standard error of the server"
	case errors.Is(e.Err, call.ErrRevision) && e.fixed:
		return "leave Dialer.Revision empty, or update the server or this program"
	case errors.Is(e.Err, call.ErrRevision):
		return "update the server or this program"
	}
	return ""
}

const adviceOnEndpoint = "check that the URL is that of an MCP endpoint"

func adviceOnCertificate(err *tls.CertificateVerificationError) string {
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	switch {
	case errors.As(err, &authority):
		return "if you trust the certificate, add its issuer to the root certificates of Dialer.HTTPClient"
	case errors.As(err, &name):
		return "use a host name that the certificate has"
	}
	return "check the certificate of the server"
}

func adviceOnStatus(status int) string {
	switch {
	case status >= 300 && status < 400:
		return "if you trust the target of the redirect, use its URL"
	case status == http.StatusUnauthorized:
		return "send credentials that the server accepts, in HTTPTarget.Header or with Dialer.Auth"
	case status == http.StatusForbidden:
		return "use credentials that give access to the server"
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed:
		return adviceOnEndpoint
	case status == http.StatusTooManyRequests, status >= 500:
		return "try again later"
	}
	return ""
}

// stageError is an error with the stage in which it happened.
type stageError struct {
	stage Stage
	error
}

func (e *stageError) Unwrap() error { return e.error }

// at adds the stage to err. The outermost stage wins.
func at(stage Stage, err error) error {
	if err == nil {
		return nil
	}
	return &stageError{stage, err}
}

// silenceError is the error of a server that has not answered before the time-out err.
type silenceError struct {
	error
	after   time.Duration
	invalid error // why the first text that it wrote is not a message; nil if it wrote nothing
}

func (e *silenceError) Error() string {
	begin, within := "", fmt.Sprintf(" within %v", e.after)
	if !errors.As(e.error, new(*call.TimeoutError)) { // the caller knows the limit
		begin, within = strings.TrimPrefix(e.error.Error(), call.ErrNotSent.Error()+": ")+": ", ""
	}
	if e.invalid != nil {
		return fmt.Sprintf("%sthe server did not answer%s; it wrote text to standard output that is not an MCP "+
			"message: %v", begin, within, e.invalid)
	}
	return begin + "the server has written nothing to its standard output" + within
}

func (e *silenceError) Unwrap() error { return e.error }

func (e *silenceError) advice() string {
	if e.invalid != nil {
		return "check that the command is an MCP server that uses standard input and output; it must write its log " +
			"to standard error (in Python: file=sys.stderr)"
	}
	return "check that the command is an MCP server that uses standard input and output; run it alone to see what it " +
		"waits for, or to let it install what it needs"
}

// dialError returns the DialError for an error of Target.dial.
func (d *Dialer) dialError(target Target, err error) error {
	e := &DialError{Target: target.String(), Stage: StageConnect, Err: err, fixed: d.Revision != "",
		endings: d.endings}
	_, e.command = target.(*CommandTarget)
	var s *stageError
	if errors.As(err, &s) && !errors.Is(err, call.ErrNotSent) {
		e.Stage = s.stage
	}
	return e
}
