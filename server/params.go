package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/internal/jsonscan"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// checkNames returns an error if the name of a member differs from a known name only in its case.
// Another JSON parser might take it for the known member.
func checkNames(params *jsonrpc.Members, known ...string) error {
	name, ok := rpc.CaseVariant(params, known...)
	if !ok {
		return nil
	}
	return misspelled("params", name, known)
}

// misspelled returns the error for a name that differs from a known name only in its case.
func misspelled(object, name string, known []string) error {
	for _, k := range known {
		if strings.EqualFold(name, k) {
			return jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s: field %q must be written %q", object, name, k)
		}
	}
	return jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s: unknown field %q", object, name)
}

// textParam returns a member of the params, which must be a string.
func textParam(c *rpc.Call, name, what string) (string, error) {
	raw, _ := c.Params().Get(name)
	if len(raw) == 0 || raw[0] != '"' {
		return "", jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "params.%s must be a string: the %s", name, what)
	}
	return jsonrpc.Unquote(raw), nil
}

// membersOf returns the members of an object in the params, null ones too, or none if it is absent. It returns an
// error if a name differs from a known name only in its case.
func membersOf(c *rpc.Call, object string, known ...string) (map[string][]byte, error) {
	raw, ok := c.Params().Get(object)
	if !ok {
		return nil, nil
	}
	if raw[0] != '{' {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "params.%s must be an object", object)
	}
	members := make(map[string][]byte)
	for name, value := range jsonrpc.All(raw) {
		for _, k := range known {
			if name != k && strings.EqualFold(name, k) {
				return nil, misspelled("params."+object, name, known)
			}
		}
		members[name] = value
	}
	return members, nil
}

// wrongArgument returns the error for an argument of a prompt, in the words of those of tools.
func wrongArgument(name, expected, got string) error {
	issue := schema.Issue{Path: "/" + pointerEscape.Replace(name), Expected: expected, Got: got}
	return jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%v",
		invalidArguments(&schema.ValidationError{Issues: []schema.Issue{issue}}))
}

// pointerEscape escapes a name for a JSON Pointer (RFC 6901, section 3), and pointerUnescape reads it.
var (
	pointerEscape   = strings.NewReplacer("~", "~0", "/", "~1")
	pointerUnescape = strings.NewReplacer("~1", "/", "~0", "~")
)

// textsOf decodes an object of strings, which may be absent. Some clients send null for it or for an absent member.
func textsOf(what string, object []byte) (map[string]string, error) {
	texts := make(map[string]string)
	if object == nil || string(object) == "null" {
		return texts, nil
	}
	if object[0] != '{' {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s must be an object", what)
	}
	for name, value := range jsonrpc.All(object) {
		switch value[0] {
		case '"':
			texts[name] = jsonrpc.Unquote(value)
		case 'n':
		case '{':
			return nil, wrongArgument(name, "string", "object")
		case '[':
			return nil, wrongArgument(name, "string", "array")
		default:
			return nil, wrongArgument(name, "string", string(value[:min(len(value), 32)]))
		}
	}
	return texts, nil
}

// The keys of _meta that a program sends must follow the grammar, and must be keys of the
// program or of trace context (2026-07-28, basic, _meta). Keys that a client sends are not
// checked: the specification does not require a server to reject any.

// officialPrefix is the prefix of the keys of official extensions, which a program may send
// if it supports such an extension. The keys of the core protocol remain reserved.
const officialPrefix = "io.modelcontextprotocol/"

var coreKeys = []string{
	mcp.MetaProtocolVersion, mcp.MetaClientInfo, mcp.MetaClientCapabilities, mcp.MetaLogLevel, mcp.MetaServerInfo,
	mcp.MetaSubscriptionID,
}

// checkMeta returns an error if a program must not send these keys.
func (c *Catalog) checkMeta(meta mcp.Meta) error {
	if len(meta) == 0 {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		if strings.HasPrefix(key, officialPrefix) && !slices.Contains(coreKeys, key) && c.extensions.official() &&
			mcp.CheckMetaKey(key) == nil {
			continue
		}
		if err := mcp.CheckMeta(key, meta[key]); err != nil {
			return err
		}
	}
	return nil
}

// isRelayed reports whether a result comes from another server, and was decoded by a client.
func isRelayed(b *mcp.ResultBase) bool { return b.Source != nil || b.ResultType != "" }

// relayed returns the base of a result of another server without what belongs to the connection to that server.
func relayed(b mcp.ResultBase) mcp.ResultBase {
	b.ResultType = ""
	removed := []string{"resultType"}
	if b.Meta = b.Meta.Forwardable(); b.Meta == nil {
		removed = append(removed, "_meta")
	}
	b.Source = jsonrpc.Without(b.Source, removed...)
	return b
}

// official reports whether the server supports an official extension.
func (x *extensions) official() bool {
	for id := range x.declared() {
		if strings.HasPrefix(id, officialPrefix) {
			return true
		}
	}
	return false
}

// objectOrNil returns the params of a message to a client in UTF-8, or an error if they are no JSON object.
func objectOrNil(method string, params json.RawMessage) (json.RawMessage, error) {
	if params == nil {
		return nil, nil
	}
	params = jsonscan.AppendUTF8(nil, params)
	if err := jsonrpc.Check(params, jsonrpc.Limits{}); err != nil || params[0] != '{' {
		return nil, fmt.Errorf("%.128s: the params must be a JSON object, not %.20q", method, params)
	}
	return params, nil
}
