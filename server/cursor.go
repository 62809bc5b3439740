package server

import (
	"crypto/sha256"
	"strings"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/seal"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/principal"
)

// A cursor is the name after which a page begins. It holds while entries come and go,
// and on every replica that has the same keys. It is sealed, for its list and, where
// callers see different lists, for its caller: a name on somebody's page is no one
// else's business, and a cursor that anybody could make up would name what is hidden.
type cursors struct{ keys *seal.Keys }

const maxCursor = 16 << 10 // bytes; room for the longest URI, sealed

// after makes the cursor of the page behind a name. The owner is nil for a list that is
// the same for all.
func (c cursors) after(list, name string, owner *principal.Principal) string {
	text := make([]byte, 0, 1+sha256.Size+len(name))
	if owner == nil {
		text = append(text, 'a')
	} else {
		digest := digestOf(*owner)
		text = append(append(text, 'o'), digest[:]...)
	}
	return c.keys.Seal("cursor of "+list, append(text, name...))
}

// of returns the name after which the page begins that a call asks for, "" for the first.
func (c cursors) of(asked *rpc.Call) (string, error) {
	if name, ok := asked.Params.CaseVariant("cursor", "_meta"); ok {
		return "", jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "params member %q differs from a known one in its case", name)
	}
	raw, ok := asked.Params.Get("cursor")
	switch {
	case !ok:
		return "", nil
	case raw[0] != '"':
		return "", invalidCursor("it is not a string")
	case len(raw) > maxCursor:
		return "", invalidCursor("it is too long")
	}
	opened, err := c.keys.Open("cursor of "+asked.Method, jsonrpc.Unquote(raw))
	if err != nil {
		return "", invalidCursor(err.Error())
	}
	text := string(opened)
	if name, ok := strings.CutPrefix(text, "a"); ok {
		return name, nil
	}
	digest := digestOf(asked.Principal)
	name, ok := strings.CutPrefix(text, "o"+string(digest[:]))
	if !ok {
		return "", invalidCursor("it belongs to somebody else")
	}
	return name, nil
}

func digestOf(who principal.Principal) [sha256.Size]byte { return sha256.Sum256([]byte(who.Key())) }

func invalidCursor(reason string) error {
	return jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "invalid cursor: %s: take it from the page before, or begin without one", reason)
}
