package rpc

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// MirroredParam is a parameter that a transport repeats outside of the body.
type MirroredParam struct {
	Name string // the x-mcp-header of the tool's schema
	Text string // not encoded; any text
}

// MirrorParams returns the parameters of a tool call that a transport repeats. Arguments is a
// JSON object. Absent and null arguments are not repeated. The error is for an integer that
// some implementations cannot represent exactly (2026-07-28, server/tools, x-mcp-header).
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
			n, ok := exactInteger(text)
			if !ok {
				return nil, fmt.Errorf("%s must be an integer from -2^53+1 to 2^53-1 to be sent in a header, not %.64s",
					strings.Join(params[i].Path, "."), text)
			}
			text = strconv.FormatInt(n, 10)
		}
		mirrored = append(mirrored, MirroredParam{params[i].Name, text})
	}
	return mirrored, nil
}

// CheckMirror compares the parameters that the call's transport repeats with the arguments, because intermediaries may
// have used them (2026-07-28, basic/transports/streamable-http, Server Behavior for Custom Headers). It ignores headers
// that the tool does not define. If middleware has replaced the arguments, it compares those that the client has sent,
// and nothing if middleware has chosen another tool. The error is a *jsonrpc.Error.
func (c *Call) CheckMirror(params []schema.HeaderParam, arguments []byte) error {
	if c.Binding == nil {
		return nil
	}
	if sent := c.ParamsBefore(); sent != c.Params() {
		if name, _ := sent.Get("name"); jsonrpc.Unquote(name) != c.Name() {
			return nil
		}
		arguments, _ = sent.Get("arguments")
	}
	for i := range params {
		p := &params[i]
		text, repeated, err := c.Binding.Param(p.Name)
		if err != nil {
			return err
		}
		switch value := valueOf(p, arguments); {
		case value == nil && repeated:
			return mirrorError(p, "the argument is missing")
		case value == nil:
		case !repeated:
			return mirrorError(p, "the header is missing")
		case !matches(text, value):
			return mirrorError(p, "the header does not match the argument")
		}
	}
	return nil
}

// mirrorError returns an error without the values, which proxies may log.
func mirrorError(p *schema.HeaderParam, reason string) error {
	return jsonrpc.Errorf(mcp.CodeHeaderMismatch, "header mismatch: Mcp-Param-%.100s: %s", p.Name, reason)
}

// valueOf returns the value of a parameter in arguments, a valid JSON object: a string, a
// number or a boolean. It is nil if the parameter is absent, null, or of another type.
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

// matches reports whether text represents value. Numbers are compared by value: 42.0 is 42.
func matches(text string, value []byte) bool {
	switch value[0] {
	case '"':
		return text == jsonrpc.Unquote(value)
	case 't', 'f':
		return text == string(value)
	}
	a, okA := exactInteger(text)
	b, okB := exactInteger(string(value))
	return okA && okB && a == b
}

// exactInteger reads a JSON number that is an integer and that every implementation represents exactly.
func exactInteger(number string) (int64, bool) {
	const maximum = 1<<53 - 1
	if len(number) > 64 || number == "" || !strings.ContainsRune("-0123456789", rune(number[0])) ||
		jsonrpc.Check([]byte(number), jsonrpc.Limits{}) != nil {
		return 0, false
	}
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		return n, -maximum <= n && n <= maximum
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || f < -maximum || f > maximum || f != float64(int64(f)) {
		return 0, false
	}
	return int64(f), true
}
