package server

import (
	"crypto/sha256"
	"strings"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/seal"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/principal"
)

// cursors encodes and decodes list cursors. A cursor holds the name after which a page begins,
// so it stays valid while entries are added and removed, and on every replica with the same
// keys. It is sealed for its list and, if the list depends on the caller, for the caller: the
// names of one caller's list are not for others, and a forged cursor could name a hidden entry.
type cursors struct{ keys *seal.Keys }

const maxCursor = 16 << 10 // bytes; enough for the longest URI, sealed

// after returns the cursor of the page that begins after a name. The owner is nil for a list
// that is the same for all callers.
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

// of returns the name after which the requested page begins, "" for the first page.
func (c cursors) of(asked *rpc.Call) (string, error) {
	if err := checkNames(asked.Params(), "cursor", "_meta"); err != nil {
		return "", err
	}
	raw, ok := asked.Params().Get("cursor")
	switch {
	case !ok:
		return "", nil
	case raw[0] != '"':
		return "", invalidCursor("cursor must be a string")
	case len(raw) > maxCursor:
		return "", invalidCursor("cursor is too long")
	}
	opened, err := c.keys.Open("cursor of "+asked.Method(), jsonrpc.Unquote(raw))
	if err != nil {
		return "", invalidCursor(err.Error())
	}
	text := string(opened)
	if name, ok := strings.CutPrefix(text, "a"); ok {
		return name, nil
	}
	digest := digestOf(asked.Principal())
	name, ok := strings.CutPrefix(text, "o"+string(digest[:]))
	if !ok {
		return "", invalidCursor(seal.ErrInvalid.Error())
	}
	return name, nil
}

func digestOf(who principal.Principal) [sha256.Size]byte { return sha256.Sum256([]byte(who.Key())) }

func invalidCursor(reason string) error {
	return jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "invalid cursor: %s: use the nextCursor of the previous page, or omit the cursor to start over", reason)
}
