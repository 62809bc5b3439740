package main

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// plainly says why a server could not be reached, in words for somebody who can do
// something about it where the reason is a common one.
func plainly(err error) string {
	var program *exec.Error
	var path *os.PathError
	var op *net.OpError
	var dns *net.DNSError
	var status *call.StatusError
	var dial *client.DialError
	var reported *jsonrpc.Error
	var exit *transport.ExitError
	var authority x509.UnknownAuthorityError
	var login *loginError
	switch {
	case errors.As(err, &login):
		return login.Error()
	case errors.As(err, &program) && errors.Is(err, exec.ErrNotFound):
		return fmt.Sprintf("there is no program %q in PATH: install it, or write where it is", program.Name)
	case errors.As(err, &path) && path.Op == "fork/exec" && errors.Is(err, os.ErrNotExist):
		return fmt.Sprintf("there is no program %s: install it, or write where it is", path.Path)
	case errors.As(err, &path) && path.Op == "fork/exec" && errors.Is(err, os.ErrPermission):
		return fmt.Sprintf("%s is not a program that may be run", path.Path)
	case errors.Is(err, syscall.ECONNREFUSED) && errors.As(err, &op) && op.Addr != nil:
		return fmt.Sprintf("nothing listens at %s: is the server running?", op.Addr)
	case errors.As(err, &dns) && dns.IsNotFound:
		return fmt.Sprintf("there is no host %q: is the name right?", dns.Name)
	case errors.As(err, &dial) && errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Sprintf("the server at %s does without TLS: write http://", dial.Target)
	case errors.As(err, &dial) && errors.As(err, &authority):
		return fmt.Sprintf("nobody whom this machine trusts vouches for %s: have the system trust who has signed its certificate", dial.Target)
	case errors.As(err, &dial) && errors.As(err, &exit):
		return fmt.Sprintf("%s: the %s: %s", dial.Target, strings.TrimPrefix(exit.Error(), "transport: "), dial.Advice())
	case errors.As(err, &reported) && reported.Code == mcp.CodeMissingCapability:
		return incapable(reported)
	case errors.Is(err, call.ErrUnauthorized) && errors.Is(err, oauth.ErrDiscovery):
		return "the server wants to know who calls, and does not say where to log in: send what it asks for in a header"
	case errors.As(err, &status) && status.Status == http.StatusUnauthorized:
		return "the server wants to know who calls (HTTP status 401): send what it asks for in a header"
	case errors.As(err, &dial) && errors.As(err, &status) && status.Status == http.StatusNotFound:
		return fmt.Sprintf("there is no MCP endpoint at %s (HTTP status 404): is the path right? Many are at /mcp", dial.Target)
	}
	return err.Error()
}

// incapable says what a server would have needed of its user.
func incapable(err *jsonrpc.Error) string {
	var missing mcp.MissingCapabilityData
	if json.Unmarshal(err.Data, &missing) != nil {
		return err.Error()
	}
	switch needs := missing.RequiredCapabilities; {
	case needs.Elicitation != nil:
		return "the server has something to ask, and there is nobody to answer: run this at a terminal"
	case needs.Roots != nil:
		return "the server wants to know where to work: name directories with --root"
	case needs.Sampling != nil:
		return "the server wants to use a model of its client's, and parley has none"
	}
	return err.Error()
}
