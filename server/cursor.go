package server

import (
	"encoding/base64"
	"strings"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/jsonrpc"
)

// A cursor is the name after which a page begins. It holds while entries come and
// go, and on every replica.
const (
	cursorPrefix = "after:"
	maxCursor    = 12 << 10 // room for the longest URI
)

func cursorAfter(name string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(cursorPrefix + name))
}

// cursorOf returns the name after which the page begins that a call asks for, ""
// for the first.
func cursorOf(c *call.Call) (string, error) {
	if name, ok := c.Params.CaseVariant("cursor", "_meta"); ok {
		return "", jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "params member %q differs from a known one in its case", name)
	}
	raw, ok := c.Params.Get("cursor")
	if !ok {
		return "", nil
	}
	var name string
	if len(raw) <= maxCursor {
		text, err := base64.RawURLEncoding.Strict().DecodeString(jsonrpc.Unquote(raw))
		if after, ours := strings.CutPrefix(string(text), cursorPrefix); ours && err == nil {
			name = after
		}
	}
	if name == "" {
		return "", jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "invalid cursor: take it from the page before, or begin without one")
	}
	return name, nil
}
