package spec_test

import (
	"path"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/spec"
	"github.com/parley-mcp/parley/mcp"
)

func TestEverySchemaHasDefinitions(t *testing.T) {
	for rev, want := range map[mcp.Revision]int{
		mcp.V20241105: 79, mcp.V20250326: 83, mcp.V20250618: 91, mcp.V20251125: 145, mcp.V20260728: 155, spec.Tasks: 76,
	} {
		must.CheckEqual(t, len(spec.Definitions(rev)), want, rev)
	}
}

func TestPublishedExamplesAreValid(t *testing.T) {
	n := 0
	for name, raw := range spec.Examples(mcp.V20260728) {
		n++
		must.Check(t, spec.Validate(mcp.V20260728, path.Dir(name), raw), name)
	}
	must.CheckThat(t, n >= 100, "found %d examples, want more than 100", n)
}

func TestValidateRejects(t *testing.T) {
	for _, c := range []struct {
		why        string
		rev        mcp.Revision
		definition string
		raw        string
	}{
		{"an unknown definition", mcp.V20241105, "AudioContent", `{"type":"audio","data":"","mimeType":"audio/wav"}`},
		{"a missing member", mcp.V20260728, "TextContent", `{"type":"text"}`},
		{"a member of the wrong type", mcp.V20260728, "TextContent", `{"type":"text","text":1}`},
		{"a duplicate name", mcp.V20260728, "TextContent", `{"type":"text","text":"a","text":"b"}`},
		{"a duplicate name in different escapes", mcp.V20260728, "TextContent",
			`{"type":"text","text":"a","t\u0065xt":"b"}`},
		{"invalid UTF-8", mcp.V20260728, "TextContent", "{\"type\":\"text\",\"text\":\"\xff\"}"},
		{"data after the value", mcp.V20260728, "TextContent", `{"type":"text","text":"a"}{}`},
		{"base64 without padding", mcp.V20241105, "ImageContent",
			`{"type":"image","data":"YQ","mimeType":"image/png"}`},
		{"a relative URI", mcp.V20250618, "Resource", `{"uri":"a b","name":"a"}`},
	} {
		err := spec.Validate(c.rev, c.definition, []byte(c.raw))
		must.CheckThat(t, err != nil, "%s: %s of %s accepted %s", c.why, c.definition, c.rev, c.raw)
	}
}

func TestFractionsAreValidWhereTheGeneratorWroteInteger(t *testing.T) {
	for _, rev := range []mcp.Revision{mcp.V20250618, mcp.V20251125, mcp.V20260728, spec.Tasks} {
		must.Check(t, spec.Validate(rev, "ElicitResult", []byte(`{"action":"accept","content":{"height":1.72}}`)))
		err := spec.Validate(rev, "ElicitResult",
			[]byte(`{"action":"accept","content":{"height":null}}`))
		must.CheckThat(t, err != nil, "%s: form content accepted null", rev)
	}
	must.Check(t, spec.Validate(mcp.V20260728, "JSONValue", []byte(`{"a":[1.5,null,true,"b"]}`)))
}

const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientCapabilities":{}}`

func TestValidateMessageRejects(t *testing.T) {
	for _, c := range []struct {
		what   string
		rev    mcp.Revision
		method string // method of the request, for results
		raw    string
	}{
		{"another version of JSON-RPC", mcp.V20241105, "", `{"jsonrpc":"1.0","id":1,"method":"ping"}`},
		{"a request whose id is null", mcp.V20241105, "", `{"jsonrpc":"2.0","id":null,"method":"ping"}`},
		{"a request whose id is a fraction", mcp.V20260728, "",
			`{"jsonrpc":"2.0","id":1.5,"method":"tools/list","params":{` + meta + `}}`},
		{"a request with wrong parameters", mcp.V20241105, "",
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`},
		{"a method with a notification's name", mcp.V20241105, "",
			`{"jsonrpc":"2.0","id":1,"method":"notifications/initialized"}`},
		{"a request without an id", mcp.V20241105, "", `{"jsonrpc":"2.0","method":"ping"}`},
		{"a method of a later revision", mcp.V20241105, "",
			`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"a",` +
				`"requestedSchema":{"type":"object","properties":{}}}}`},
		{"a method of an earlier revision", mcp.V20260728, "",
			`{"jsonrpc":"2.0","id":1,"method":"ping","params":{` + meta + `}}`},
		{"a modern request of a server", mcp.V20260728, "", `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`},
		{"a member in another case", mcp.V20241105, "", `{"jsonrpc":"2.0","id":1,"Method":"ping"}`},
		{"a duplicate member", mcp.V20241105, "", `{"jsonrpc":"2.0","id":1,"method":"ping","method":"ping"}`},
		{"a method and a result", mcp.V20241105, "ping", `{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}`},
		{"a result and an error", mcp.V20241105, "ping",
			`{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"a"}}`},
		{"a message without method, result and error", mcp.V20241105, "ping", `{"jsonrpc":"2.0","id":1}`},
		{"a result without a method", mcp.V20241105, "", `{"jsonrpc":"2.0","id":1,"result":{}}`},
		{"the result of another method", mcp.V20241105, "tools/list",
			`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`},
		{"a result whose list is null", mcp.V20241105, "tools/list",
			`{"jsonrpc":"2.0","id":1,"result":{"tools":null}}`},
		{"a legacy result with resultType", mcp.V20251125, "ping",
			`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete"}}`},
		{"a modern result without resultType", mcp.V20260728, "tools/call",
			`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`},
		{"a modern result without cache hints", mcp.V20260728, "tools/list",
			`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","tools":[]}}`},
		{"an unknown resultType", mcp.V20260728, "tools/call",
			`{"jsonrpc":"2.0","id":1,"result":{"resultType":"perhaps","content":[]}}`},
		{"input_required without members", mcp.V20260728, "tools/call",
			`{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required"}}`},
		{"input_required for a list", mcp.V20260728, "tools/list",
			`{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","requestState":"a"}}`},
		{"a task without its members", mcp.V20260728, "tools/call",
			`{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","content":[]}}`},
		{"a request of the extension without metadata", mcp.V20260728, "",
			`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"a"}}`},
		{"a request of the extension in a legacy session", mcp.V20251125, "",
			`{"jsonrpc":"2.0","id":1,"method":"tasks/update","params":{"taskId":"a","inputResponses":{}}}`},
		{"a modern error whose id is null", mcp.V20260728, "",
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"a"}}`},
		{"a modern error without its data", mcp.V20260728, "",
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"a"}}`},
		{"a retired code", mcp.V20260728, "", `{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"a"}}`},
		{"an undefined code", mcp.V20260728, "", `{"jsonrpc":"2.0","id":1,"error":{"code":-32050,"message":"a"}}`},
		{"an error whose code is a fraction", mcp.V20241105, "",
			`{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":"a"}}`},
		{"a batch in a revision without batches", mcp.V20250618, "",
			`[{"jsonrpc":"2.0","method":"notifications/initialized"}]`},
		{"an empty batch", mcp.V20250326, "", `[]`},
		{"a batch with an invalid message", mcp.V20250326, "",
			`[{"jsonrpc":"2.0","method":"notifications/initialized"},{}]`},
		{"an incomplete message", mcp.V20241105, "", `{"jsonrpc":"2.0",`},
	} {
		err := spec.ValidateMessage(c.rev, []byte(c.raw), c.method)
		must.CheckThat(t, err != nil, "%s: %s accepted %s", c.what, c.rev, c.raw)
	}
}

func TestMethodsAreComplete(t *testing.T) {
	for rev, want := range map[mcp.Revision]int{
		mcp.V20241105: 24, mcp.V20250326: 24, mcp.V20250618: 25, mcp.V20251125: 31, mcp.V20260728: 21, spec.Tasks: 7,
	} {
		got := spec.Methods(rev)
		must.CheckEqual(t, len(got), want, rev, got)
	}
}
