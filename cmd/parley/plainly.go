package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"syscall"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/call"
)

// plainly says why a server could not be reached, in words for somebody who can do
// something about it where the reason is a common one.
func plainly(err error) string {
	var program *exec.Error
	var op *net.OpError
	var dns *net.DNSError
	var status *call.StatusError
	var login *loginError
	switch {
	case errors.As(err, &login):
		return login.Error()
	case errors.As(err, &program) && errors.Is(err, exec.ErrNotFound):
		return fmt.Sprintf("there is no program %q in PATH: install it, or write where it is", program.Name)
	case errors.Is(err, syscall.ECONNREFUSED) && errors.As(err, &op) && op.Addr != nil:
		return fmt.Sprintf("nothing listens at %s: is the server running?", op.Addr)
	case errors.As(err, &dns) && dns.IsNotFound:
		return fmt.Sprintf("there is no host %q: is the name right?", dns.Name)
	case errors.Is(err, call.ErrUnauthorized) && errors.Is(err, oauth.ErrDiscovery):
		return "the server wants to know who calls, and does not say where to log in: send what it asks for in a header"
	case errors.As(err, &status) && status.Status == http.StatusUnauthorized:
		return "the server wants to know who calls (HTTP status 401): send what it asks for in a header"
	}
	return err.Error()
}
