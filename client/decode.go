package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/contain"
	"github.com/parley-mcp/parley/internal/httpurl"
	"github.com/parley-mcp/parley/internal/jsonscan"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// decode decodes the result of a request, as strictly as all protocol data: keys are case-sensitive and must not
// repeat. It drops entries, blocks and optional fields that cannot be decoded, and returns raw without them. It logs
// what it drops, except for a cached result, which has been logged before. name may be empty.
func (c *Client) decode(method, name string, raw json.RawMessage, cached bool, into any) (json.RawMessage, error) {
	kept, faults, err := contain.Decode(raw, into)
	if kind := resultType(into); err == nil && (kind == mcp.ResultTypeInputRequired || kind == mcp.ResultTypeTask) {
		err = fmt.Errorf("its resultType is %q, which the revision of the connection does not define", kind)
	}
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

// resultType returns the type that a result declares. In 2026-07-28, types other than "complete" are handled
// elsewhere. In a session they are invalid: without this check, such a result would look complete and empty.
func resultType(result any) string {
	switch r := result.(type) {
	case *mcp.CallToolResult:
		return r.ResultType
	case *mcp.GetPromptResult:
		return r.ResultType
	case *mcp.ReadResourceResult:
		return r.ResultType
	case *mcp.CompleteResult:
		return r.ResultType
	case *mcp.ListToolsResult:
		return r.ResultType
	case *mcp.ListPromptsResult:
		return r.ResultType
	case *mcp.ListResourcesResult:
		return r.ResultType
	case *mcp.ListResourceTemplatesResult:
		return r.ResultType
	}
	return ""
}

// decodeResult decodes raw, as decode does, into a new Result.
func decodeResult[Result any](c *Client, method string, raw json.RawMessage,
	cached bool) (*Result, json.RawMessage, error) {
	result := new(Result)
	raw, err := c.decode(method, "", raw, cached, result)
	if err != nil {
		return nil, nil, err
	}
	return result, raw, nil
}

// unusable returns why an entry of a list cannot be used, or "". name identifies the entry.
func unusable(name string, replaced map[string]bool) string {
	switch {
	case name == "":
		return "its name or URI must not be empty"
	case replaced[name]:
		return "its name or URI must be valid Unicode"
	}
	return ""
}

// replacedValues returns the values of a field of a list's entries in which a lone surrogate was replaced.
// After the replacement, different names may look the same.
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

// filterIcons removes icons from origins other than the server's (2025-11-25, basic, icons):
// fetching them would tell a third party about the user. A server on a byte stream has no
// origin. Package mcp has already removed icons with schemes other than https and data.
func (c *Client) filterIcons(icons *mcp.Icons) {
	t, ok := c.target.(*HTTPTarget)
	if !ok || len(*icons) == 0 {
		return
	}
	server, err := url.Parse(t.URL)
	*icons = slices.DeleteFunc(slices.Clone(*icons), func(icon mcp.Icon) bool {
		if !strings.HasPrefix(strings.ToLower(icon.Src[:min(len(icon.Src), len("https:"))]), "https:") {
			return false
		}
		source, err2 := url.Parse(icon.Src)
		return err != nil || err2 != nil || !httpurl.SameOrigin(server, source)
	})
}

// filterLinks removes icons of resource links, as filterIcons does.
func (c *Client) filterLinks(content []mcp.Content) {
	for _, one := range content {
		if link, ok := one.(*mcp.ResourceLink); ok {
			c.filterIcons(&link.Icons)
		}
	}
}
