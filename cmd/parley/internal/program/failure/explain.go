package failure

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/login/credstore"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/confine"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
	"github.com/parley-mcp/parley/transport"
)

// Explain returns the text of an error for the user: what failed, the cause in its standard text, and, for common
// causes, what to do next.
func Explain(err error) string {
	message, advice := Explained(err)
	return (&errorReport{Message: message, Advice: advice}).text()
}

// Explained returns the parts of the text that explain returns: the message with the cause, and the advice.
func Explained(err error) (message, advice string) {
	var login *credstore.LoginError
	var token *credstore.TokenError
	var dial *client.DialError
	var reported *jsonrpc.Error
	var mistaken *mistakenError
	var late *timeoutError
	switch {
	case errors.As(err, &mistaken):
		return splitAdvice(mistaken.Error())
	case errors.As(err, &login):
		return splitAdvice(login.Error())
	case errors.As(err, &token):
		_, advice = causeOf(token)
		return token.Error(), advice
	case errors.As(err, &dial):
		return explainDial(dial)
	case errors.As(err, &reported) && reported.Code == mcp.CodeMissingCapability:
		return splitAdvice(explainCapability(reported))
	case isUnauthorized(err):
		return err.Error(), adviceUnauthorized(err)
	case errors.As(err, &late):
		return strings.TrimSuffix(late.error.Error(), ": set a longer time-out or request less"),
			"allow more time with --timeout, for example --timeout 5m"
	}
	if errors.As(err, new(*transport.ExitError)) { // it has answered before
		return err.Error(), "--verbose prints what it writes to standard error"
	}
	if _, advice = causeOf(err); advice == "" && !errors.As(err, &reported) {
		return splitAdvice(err.Error())
	}
	return err.Error(), advice
}

// explainDial explains why a server could not be reached.
func explainDial(dial *client.DialError) (message, advice string) {
	cause, advice := causeOf(dial.Err)
	exit, exited := errors.AsType[*transport.ExitError](dial.Err)
	failedStep := exited && confine.Failure(exit.Code, exit.Stderr) != ""
	target, denied := dial.Target, ""
	if exited && !failedStep && isConfined(dial) {
		denied = adviceDenied(exit.Stderr)
	}
	if denied != "" {
		target = "the confined program"
	}
	message = fmt.Sprintf("cannot connect to %s: %s", target, cause)
	if program := new(exec.Error); errors.As(dial.Err, &program) || isStart(dial.Err) || failedStep {
		message = "cannot start the server: " + cause
	}
	switch {
	case denied != "":
		advice = denied
	case errors.Is(dial.Err, call.ErrRevision):
		advice = adviceRevision
		if strings.HasPrefix(dial.Advice(), "leave Dialer.Revision empty") { // the user has chosen one
			advice = `leave out --revision, or "revision" in the configuration, or ` + advice
		}
	case advice == "":
		advice = dial.Advice()
	}
	if strings.Contains(cause, advice) {
		advice = ""
	}
	return message, advice
}

// isConfined reports whether the program of a server that could not be reached may be confined: parley starts itself
// then.
func isConfined(dial *client.DialError) bool {
	self, err := os.Executable()
	return err == nil && dial.Target == client.Command(self).String()
}

var (
	denial = regexp.MustCompile(`(?i)permission denied|operation not permitted|EACCES|EPERM|EAI_AGAIN|name resolution` +
		`|cannot find module|no module named`)
	network = regexp.MustCompile(`(?i)socket|connect|listen|EAI_AGAIN|getaddrinfo|name resolution`)
	path    = regexp.MustCompile(`['"](/[^'"]+)['"]|(?:^|[\s(:=])(/[^\s'":,;)]+)`)
)

// adviceDenied returns the advice for a confined program that was denied something, by the last line of its standard
// error that says so, or "".
func adviceDenied(stderr []byte) string {
	const help = " if the server may use it; see parley help confine"
	for _, line := range slices.Backward(strings.Split(string(stderr), "\n")) {
		if !denial.MatchString(line) {
			continue
		}
		if m := path.FindStringSubmatch(line); m != nil {
			return `"confine" of the server may not allow ` + m[1] + m[2] + `: add it to "read" or "write"` + help
		}
		if network.MatchString(line) {
			return `"confine" of the server may not allow the network: set "network": true` + help
		}
		return `"confine" of the server may not allow something: add it` + help
	}
	return ""
}

// pythonTrace matches a line of a traceback of Python.
var pythonTrace = regexp.MustCompile(`(?m)^ +File ".*", line \d+`)

// adviceExit returns the advice for a program that has exited before it answered, by its standard error.
func adviceExit(stderr []byte) string {
	switch {
	case bytes.Contains(stderr, []byte("No module named ")):
		return "start it with the Python that has the module: with uv run in the directory of the project, or with " +
			"the python of its virtual environment"
	case pythonTrace.Match(stderr):
		return "--verbose prints the whole traceback; does it have the environment variables that it needs?"
	}
	return "is it an MCP server that uses standard input and output, and does it have the environment variables that " +
		"it needs? --verbose prints what it writes to standard error"
}

// adviceNotFound returns the advice for a program that was not found.
func adviceNotFound(name string) string {
	if !isLine(name) {
		return "install the program or write its path"
	}
	program, rest, _ := strings.Cut(strings.TrimSpace(name), " ")
	args := strings.Fields(rest)
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = strconv.Quote(arg)
	}
	return fmt.Sprintf("the program and its arguments are separate: write \"command\": %q, \"args\": [%s] in a file, "+
		"or %s after -- in a command line", program, strings.Join(quoted, ", "),
		strings.Join(append([]string{program}, args...), " "))
}

// isLine reports whether the name of a program is a whole command line, such as "npx -y server".
func isLine(name string) bool {
	program, _, found := strings.Cut(strings.TrimSpace(name), " ")
	return found && isProgram(program) && !isProgram(name)
}

func isProgram(name string) bool {
	_, err := exec.LookPath(name)
	return err == nil
}

// CheckCommand returns an error if the name of a program is a whole command line, such as "npx -y server".
func CheckCommand(name string) error {
	if !isLine(name) {
		return nil
	}
	return fmt.Errorf("there is no program %q; %s", name, adviceNotFound(name))
}

// causeOf returns the innermost error that the user can act upon, with its original text, and
// advice. For other errors it returns the whole text and no advice.
func causeOf(err error) (cause, advice string) {
	var program *exec.Error
	var path *os.PathError
	var op *net.OpError
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	var status *call.StatusError
	var exit *transport.ExitError
	switch {
	case errors.As(err, &program) && errors.Is(err, exec.ErrNotFound):
		return program.Error(), adviceNotFound(program.Name)
	case isStart(err) && errors.As(err, &path) && errors.Is(err, fs.ErrNotExist) && isLine(path.Path):
		return path.Error(), adviceNotFound(path.Path)
	case isStart(err) && errors.As(err, &path):
		return path.Error(), "check the path of the program and its permissions"
	case errors.As(err, &dns) && errors.As(err, &op):
		return op.Error(), "check the host name"
	case errors.Is(err, syscall.ECONNREFUSED) && errors.As(err, &op):
		return op.Error(), "is the server running?"
	case errors.Is(err, http.ErrSchemeMismatch):
		return http.ErrSchemeMismatch.Error(), "use http:// instead of https://"
	case errors.As(err, &certificate):
		return certificate.Error(), "add the certificate of its issuer to the system's trust store if you trust it"
	case errors.As(err, &exit) && confine.Failure(exit.Code, exit.Stderr) != "":
		return splitAdvice(confine.Failure(exit.Code, exit.Stderr))
	case errors.As(err, &exit):
		return strings.TrimPrefix(exit.Error(), "transport: "), adviceExit(exit.Stderr)
	case errors.Is(err, call.ErrUnauthorized):
		return err.Error(), adviceUnauthorized(err)
	case errors.As(err, &status) && isUnauthorized(err):
		return status.Error(), adviceUnauthorized(err)
	case errors.As(err, &status) && status.Status == http.StatusNotFound:
		return status.Error(), "check the path of the URL, which is often /mcp"
	case errors.Is(err, call.ErrRevision):
		return err.Error(), adviceRevision
	}
	return err.Error(), ""
}

// adviceRevision is the advice for a server and a client without a common revision.
const adviceRevision = "update the server or parley"

// RejectsRevision reports whether the error of dialling a server in one revision only says that the server does not
// support the revision. Servers older than 2026-07-28 can also end or be silent at its first message.
func RejectsRevision(err error, r mcp.Revision) bool {
	var status *call.StatusError
	var reported *jsonrpc.Error
	switch {
	case errors.Is(err, call.ErrRevision), errors.As(err, &reported):
		return true
	case isUnauthorized(err):
		return false
	case errors.As(err, &status):
		return status.Status >= 400 && status.Status < 500 && status.Status != http.StatusTooManyRequests
	}
	return r.Modern() && (errors.As(err, new(*transport.ExitError)) || errors.Is(err, call.ErrConnectionLost) ||
		errors.Is(err, context.DeadlineExceeded))
}

// isStart reports whether err is an error of starting a program.
func isStart(err error) bool {
	var path *os.PathError
	return errors.As(err, &path) && path.Op == "fork/exec"
}

// adviceUnauthorized is the advice for a response with status 401 or 403 for which the user cannot
// log in with parley login.
func adviceUnauthorized(err error) string {
	var status *call.StatusError
	if errors.As(err, &status) && status.Status == http.StatusForbidden {
		return "use credentials that give access to the server, with --header or in the configuration"
	}
	return "send credentials that the server accepts, with --header or in the configuration"
}

// explainCapability explains which capability of the client a server requires.
func explainCapability(err *jsonrpc.Error) string {
	var missing mcp.MissingCapabilityData
	if schema.Decode(err.Data, &missing) != nil {
		return err.Error()
	}
	switch required := missing.RequiredCapabilities; {
	case required.Elicitation != nil:
		return "the server asks the user a question, and there is no terminal; run this command at a terminal, or " +
			"answer with --answer"
	case required.Roots != nil:
		return "the server requires directories to work in; name them with --root"
	case required.Sampling != nil:
		return "the server asks the client's model (sampling), and parley has none; answer it yourself in parley " +
			"inspect"
	}
	return err.Error()
}
