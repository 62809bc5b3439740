package client

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/contain"
	"github.com/parley-mcp/parley/internal/jsonscan"
	"github.com/parley-mcp/parley/jsonrpc"
)

// decode decodes the result of a request, as strictly as all protocol data: names of members are case-sensitive and
// must not repeat. It leaves out entries, blocks and optional members that cannot be decoded, and returns raw without
// them. It logs them unless the result is cached, and was decoded before. Name may be empty.
func (c *Client) decode(method, name string, raw json.RawMessage, cached bool, into any) (json.RawMessage, error) {
	kept, faults, err := contain.Decode(raw, into)
	if err == nil && faults == nil {
		return kept, nil
	}
	if name != "" {
		method += " " + name
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: cannot decode the result: %w", call.ErrInvalidResponse, method, err)
	}
	if !cached {
		faults.Log(c.dialer.Logger, method, "server", c.target.String())
	}
	return kept, nil
}

// decodeResult is decode for a new Result.
func decodeResult[Result any](c *Client, method string, raw json.RawMessage, cached bool) (*Result, json.RawMessage, error) {
	result := new(Result)
	raw, err := c.decode(method, "", raw, cached, result)
	if err != nil {
		return nil, nil, err
	}
	return result, raw, nil
}

// unusable returns why an entry of a list cannot be used, or "". Name identifies the entry.
func unusable(name string, replaced map[string]bool) string {
	switch {
	case name == "":
		return "its name or URI must not be empty"
	case replaced[name]:
		return "its name or URI must be valid Unicode"
	}
	return ""
}

// replacedValues returns the values of the members of a list's entries in which a lone surrogate was replaced.
// Different names can have the same value then.
func replacedValues(page json.RawMessage, member string) map[string]bool {
	mark := []byte(jsonscan.Replacement)
	if !bytes.Contains(page, mark) {
		return nil
	}
	values := make(map[string]bool)
	for _, entry := range elementsOf(page, member) {
		for _, raw := range jsonrpc.All(entry) {
			if raw[0] == '"' && bytes.Contains(raw, mark) {
				values[jsonrpc.Unquote(raw)] = true
			}
		}
	}
	return values
}
