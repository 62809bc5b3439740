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
	maxCursor    = 4 << 10
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
	text, err := base64.RawURLEncoding.DecodeString(jsonrpc.Unquote(raw))
	name, isOurs := strings.CutPrefix(string(text), cursorPrefix)
	if raw[0] != '"' || len(raw) > maxCursor || err != nil || !isOurs || name == "" {
		return "", jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "invalid cursor: take it from the page before, or begin without one")
	}
	return name, nil
}
