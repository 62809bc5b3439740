package failure

import (
	"crypto/tls"
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
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/login/credstore"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/confine"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/output"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

func TestExplainKeepsTheCauseAndAddsAdvice(t *testing.T) {
	capability := func(capabilities string) error {
		return &jsonrpc.Error{
			Code: mcp.CodeMissingCapability, Message: "no",
			Data: json.RawMessage(`{"requiredCapabilities":` + capabilities + `}`),
		}
	}
	dial := func(err error) error {
		return &client.DialError{Target: "https://example.com/mcp", Err: fmt.Errorf("connection lost: %w", err)}
	}
	connect := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1},
		Err: syscall.ECONNREFUSED}
	lookup := &net.OpError{Op: "dial", Net: "tcp",
		Err: &net.DNSError{Err: "no such host", Name: "example.com", IsNotFound: true}}
	token := func(err error) error { // as of an authorization server
		return fmt.Errorf("%w: %w", call.ErrUnauthorized,
			&credstore.TokenError{Server: "https://example.com/mcp",
				Err: fmt.Errorf("GET https://login.example.com/token: %w", err)})
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{capability(`{"elicitation":{}}`),
			"the server asks the user a question, and there is no terminal; run this command at a terminal, or " +
				"answer with --answer"},
		{capability(`{"roots":{}}`), "the server requires directories to work in; name them with --root"},
		{capability(`{"sampling":{}}`),
			"the server asks the client's model (sampling), and parley has none; answer it yourself in parley inspect"},
		{capability(`{"extensions":{"com.example/x":{}}}`), "no (code -32021)"},
		{dial(connect),
			"cannot connect to https://example.com/mcp: dial tcp 127.0.0.1:1: connection refused; is the server " +
				"running?"},
		{dial(lookup),
			"cannot connect to https://example.com/mcp: dial tcp: lookup example.com: no such host; check the host " +
				"name"},
		{dial(http.ErrSchemeMismatch),
			"cannot connect to https://example.com/mcp: http: server gave HTTP response to HTTPS client; use http:// " +
				"instead of https://"},
		{dial(&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}),
			"cannot connect to https://example.com/mcp: tls: failed to verify certificate: x509: certificate signed " +
				"by unknown authority; add the certificate of its issuer to the system's trust store if you trust it"},
		{dial(&call.StatusError{Status: http.StatusNotFound, Text: "Not Found"}),
			"cannot connect to https://example.com/mcp: HTTP status 404 Not Found; check the path of the URL, which " +
				"is often /mcp"},
		{dial(&call.StatusError{Status: http.StatusUnauthorized, Text: "Unauthorized"}),
			"cannot connect to https://example.com/mcp: HTTP status 401 Unauthorized; send credentials that the " +
				"server accepts, with --header or in the configuration"},
		{dial(&transport.ExitError{Code: 3}),
			"cannot connect to https://example.com/mcp: server process exited with code 3; is it an MCP server that " +
				"uses standard input and output, and does it have the environment variables that it needs? --verbose " +
				"prints what it writes to standard error"},
		{dial(&transport.ExitError{Code: 1, Stderr: []byte("  File \"s.py\", line 1, in <module>\nKeyError: 'TOKEN'\n")}),
			"cannot connect to https://example.com/mcp: server process exited with code 1; last line of stderr: " +
				`"KeyError: 'TOKEN'"; --verbose prints the whole traceback; does it have the environment variables that ` +
				"it needs?"},
		{dial(&transport.ExitError{Code: 1, Stderr: []byte("ModuleNotFoundError: No module named 'mcp'\n")}),
			"cannot connect to https://example.com/mcp: server process exited with code 1; last line of stderr: " +
				`"ModuleNotFoundError: No module named 'mcp'"; start it with the Python that has the module: with uv run ` +
				"in the directory of the project, or with the python of its virtual environment"},
		{fmt.Errorf("tools/call: %w", &transport.ExitError{Code: 3}), "tools/call: transport: server process exited " +
			"with code 3; --verbose prints what it writes to standard error"},
		{WithTimeoutFlag(&call.TimeoutError{Method: "tools/call", After: time.Minute}), "tools/call: no response within " +
			"1m0s; allow more time with --timeout, for example --timeout 5m"},
		{&call.TimeoutError{Method: "tools/call", After: time.Minute}, "tools/call: no response within 1m0s: set a " +
			"longer time-out or request less"},
		{dial(&exec.Error{Name: "npx", Err: exec.ErrNotFound}),
			`cannot start the server: exec: "npx": executable file not found in $PATH; install the program or write ` +
				`its path`},
		{dial(&exec.Error{Name: "go  run ./my server", Err: exec.ErrNotFound}),
			`cannot start the server: exec: "go  run ./my server": executable file not found in $PATH; the program and ` +
				`its arguments are separate: write "command": "go", "args": ["run", "./my", "server"] in a file, or ` +
				`go run ./my server after -- in a command line`},
		{dial(&exec.Error{Name: "no-such-program run", Err: exec.ErrNotFound}),
			`cannot start the server: exec: "no-such-program run": executable file not found in $PATH; install the ` +
				`program or write its path`},
		{&call.StatusError{Status: http.StatusUnauthorized, Text: "Unauthorized"},
			"HTTP status 401 Unauthorized; send credentials that the server accepts, with --header or in the " +
				"configuration"},
		{dial(&call.StatusError{Status: http.StatusForbidden, Text: "Forbidden"}),
			"cannot connect to https://example.com/mcp: HTTP status 403 Forbidden; use credentials that give access " +
				"to the server, with --header or in the configuration"},
		{errors.New("another error"), "another error"},
		{dial(token(lookup)),
			"cannot get an access token for https://example.com/mcp: GET https://login.example.com/token: dial tcp: " +
				"lookup example.com: no such host; check the host name"},
		{dial(token(connect)),
			"cannot get an access token for https://example.com/mcp: GET https://login.example.com/token: dial tcp " +
				"127.0.0.1:1: connection refused; is the server running?"},
		{dial(token(&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}})),
			"cannot get an access token for https://example.com/mcp: GET https://login.example.com/token: tls: " +
				"failed to verify certificate: x509: certificate signed by unknown authority; add the certificate of " +
				"its issuer to the system's trust store if you trust it"},
		{fmt.Errorf("GET https://login.example.com/token: %w", lookup),
			"GET https://login.example.com/token: dial tcp: lookup example.com: no such host; check the host name"},
	} {
		must.CheckEqual(t, Explain(c.err), c.want, c.err)
	}
}

// 401 and 403 have the exit code of authorization, also if the user has set the credentials. An authorization server
// that cannot be reached does not.
func TestRejectedCredentialsHaveTheirExitCode(t *testing.T) {
	status := func(code int) error { return fmt.Errorf("call: %w", &call.StatusError{Status: code}) }
	for _, c := range []struct {
		err  error
		want int
	}{
		{status(http.StatusUnauthorized), ExitUnauthorized},
		{Unreachable(status(http.StatusForbidden)), ExitUnauthorized},
		{Unreachable(fmt.Errorf("%w: %w", call.ErrUnauthorized, oauth.ErrDiscovery)), ExitUnauthorized},
		{Unreachable(fmt.Errorf("%w: %w", call.ErrUnauthorized,
			&credstore.TokenError{Server: "https://example.com/mcp", Err: syscall.ECONNREFUSED})), ExitUnreachable},
		{Unreachable(status(http.StatusNotFound)), ExitUnreachable},
		{status(http.StatusProxyAuthRequired), ExitOther},
	} {
		must.CheckEqual(t, Code(t.Context(), c.err), c.want, "exit code", c.err)
	}
}

func TestPrintedErrorsAreBounded(t *testing.T) {
	long := strings.Repeat("argument, ", 100_000)
	for _, format := range []output.Format{output.Table, output.JSON} {
		var b strings.Builder
		Print(&b, errors.New(`unknown argument "x"; the arguments are `+long), ExitOther, format)
		text := b.String()
		must.CheckThat(t, len(text) <= 3*maxText && strings.Contains(text, "unknown argument") &&
			strings.Contains(text, " bytes) … "), "%v: %d bytes: %.200s", format, len(text), text)
	}
}

func TestWhatAConfinedProgramWasDeniedNamesTheSetting(t *testing.T) {
	self := client.Command(must.Get(os.Executable())(t)).String()
	explain := func(target string, code int, stderr string) string {
		return Explain(&client.DialError{Target: target, Err: &transport.ExitError{Code: code, Stderr: []byte(stderr)}})
	}
	for stderr, want := range map[string]string{
		"Error: EACCES: permission denied, open '/home/ada/x'\n    at open (node:fs:1)\n": "not allow /home/ada/x: add",
		"Traceback\nPermissionError: [Errno 13] Permission denied: '/home/ada/x y'\n":     "not allow /home/ada/x y: add",
		"open /home/ada/x: permission denied\n":                                           "not allow /home/ada/x: add",
		"Cannot find module '/srv/node_modules/x/index.js' imported from /y\n":            "not allow /srv/node_modules/x/index.js: add",
		"Error: getaddrinfo EAI_AGAIN example.com\n":                                      `not allow the network: set "network": true`,
		"socket.gaierror: [Errno -3] Temporary failure in name resolution\n":              `not allow the network: set "network": true`,
		"Error: connect EACCES 127.0.0.1:80 - Local (undefined:undefined)\n":              `not allow the network: set "network": true`,
		"PermissionError: [Errno 1] Operation not permitted\n":                            "not allow something: add",
		"the key is missing\n": "does it have the environment variables",
		"EACCES: permission denied, open '/a'\nEACCES: permission denied, open '/b'\n, gave up": "not allow /b: add",
	} {
		text := explain(self, 1, stderr)
		subject := "the confined program"
		if !strings.Contains(want, "add") && !strings.Contains(want, "set") {
			subject = self // it may be parley itself
		}
		must.CheckThat(t, strings.Contains(text, want) && strings.HasPrefix(text, "cannot connect to "+subject+": "),
			"%q: %s", stderr, text)
	}
	text := explain("command node", 1, "EACCES: permission denied, open '/a'")
	must.CheckThat(t, !strings.Contains(text, "confine"), "a program that is not confined: %s", text)
	const failed = "parley: confine: the kernel has no Landlock; use another\n"
	if got, want := explain(self, confine.ExitCode, failed),
		"cannot start the server: the kernel has no Landlock; use another"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if text := explain(self, 1, failed); strings.HasPrefix(text, "cannot start") {
		t.Errorf("another exit code: %s", text)
	}
}
