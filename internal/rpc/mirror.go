package rpc

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// Mirror is what a request's binding repeats of it outside of the body, where
// others than the server read it: the headers of HTTP in 2026-07-28. A server holds
// it against the body, so that nobody is told two things.
type Mirror interface {
	// Param returns the text that mirrors the parameter of this name, decoded, and
	// reports whether there is one. The error is a *jsonrpc.Error for the peer: there
	// are several, or it is none that a client may send.
	Param(name string) (text string, ok bool, err error)
}

// MirroredParam is a parameter that a request to send repeats where its binding has
// a place for it.
type MirroredParam struct {
	Name string // as the tool's schema has it in x-mcp-header
	Text string // not encoded; any text
}

// MirrorParams returns what a call of a tool with these parameters repeats of its
// arguments, a JSON object. What is absent or null is not repeated. The error is for
// an integer that not every implementation reads the same (2026-07-28, server/tools,
// x-mcp-header).
func MirrorParams(params []schema.HeaderParam, arguments []byte) ([]MirroredParam, error) {
	var mirrored []MirroredParam
	for i := range params {
		value := valueOf(&params[i], arguments)
		if value == nil {
			continue
		}
		text := string(value)
		switch value[0] {
		case '"':
			text = jsonrpc.Unquote(value)
		case 't', 'f':
		default:
			n, ok := safeInteger(text)
			if !ok {
				return nil, fmt.Errorf("%s: %.64s cannot be mirrored into a header: it must be an integer from -2^53+1 to 2^53-1", strings.Join(params[i].Path, "."), text)
			}
			text = strconv.FormatInt(n, 10)
		}
		mirrored = append(mirrored, MirroredParam{params[i].Name, text})
	}
	return mirrored, nil
}

// CheckMirror holds what the call's binding repeats of its arguments against these:
// others on the way may have acted upon it (2026-07-28,
// basic/transports/streamable-http, Server Behavior for Custom Headers). What the
// tool does not want repeated is not looked at. The error is a *jsonrpc.Error, or nil.
func (c *Call) CheckMirror(params []schema.HeaderParam, arguments []byte) error {
	if c.Mirror == nil {
		return nil
	}
	for i := range params {
		p := &params[i]
		text, repeated, err := c.Mirror.Param(p.Name)
		if err != nil {
			return err
		}
		switch value := valueOf(p, arguments); {
		case value == nil && repeated:
			return mirrorFault(p, "there is a header, but no such argument")
		case value == nil:
		case !repeated:
			return mirrorFault(p, "there is such an argument, but no header")
		case !stands(text, value):
			return mirrorFault(p, "the header does not match the argument")
		}
	}
	return nil
}

// mirrorFault repeats no values: they come back in logs and proxies.
func mirrorFault(p *schema.HeaderParam, reason string) error {
	return jsonrpc.Errorf(mcp.CodeHeaderMismatch, "header mismatch: Mcp-Param-%.100s: %s", p.Name, reason)
}

// valueOf returns a parameter's value in arguments, a JSON object that has been
// checked: a string, a number or a boolean. It is nil where there is nothing to
// repeat: the parameter is absent, null, or of a kind that no header holds.
func valueOf(p *schema.HeaderParam, arguments []byte) []byte {
	value := arguments
	for _, name := range p.Path {
		if len(value) == 0 || value[0] != '{' {
			return nil
		}
		value, _ = jsonrpc.Get(value, name)
	}
	if len(value) == 0 || strings.IndexByte("{[n", value[0]) >= 0 {
		return nil
	}
	return value
}

// stands reports whether text stands for value. Numbers are compared as such: 42.0
// is 42.
func stands(text string, value []byte) bool {
	switch value[0] {
	case '"':
		return text == jsonrpc.Unquote(value)
	case 't', 'f':
		return text == string(value)
	}
	repeated, ok := safeInteger(text)
	n, safe := safeInteger(string(value))
	return ok && safe && repeated == n
}

// safeInteger reads a JSON number that is an integer and exact in every
// implementation.
func safeInteger(number string) (int64, bool) {
	const most = 1<<53 - 1
	if len(number) > 64 || number == "" || !strings.ContainsRune("-0123456789", rune(number[0])) ||
		jsonrpc.Check([]byte(number), jsonrpc.Limits{}) != nil {
		return 0, false
	}
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		return n, -most <= n && n <= most
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || f < -most || f > most || f != float64(int64(f)) {
		return 0, false
	}
	return int64(f), true
}
