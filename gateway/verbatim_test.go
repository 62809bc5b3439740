package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// Members that no revision defines, explicit false and empty values, numbers in another
// notation, and escapes.
const (
	odd           = `"x-unknown":[1.50,{"b":null,"a":"caf\u00e9"}],"title":""`
	oddMeta       = `"_meta":{"example.com/k":[ 1e2]}`
	oddAnnotation = `"annotations":{"priority":0.50,"x-unknown":false,"audience":["user"]}`

	oddTool = odd + `,"inputSchema":{"type":"object","x-order":[2,1]},"annotations":{"readOnlyHint":false,"destructiveHint":false,"idempotentHint":false,` +
		`"title":"","x-unknown":{"z":false}},"outputSchema":{"type":"object"},` + oddMeta + `}`
	oddPrompt   = odd + `,"arguments":[{"name":"a","required":false,"x-unknown":0}],` + oddMeta + `}`
	oddResource = `"name":"r",` + odd + `,"size":3,` + oddAnnotation + `,` + oddMeta + `}`
)

func oddUpstream() upstream {
	return upstream{
		mcp.MethodListTools:             `{"tools":[{"name":"t",` + oddTool + `]}`,
		mcp.MethodListPrompts:           `{"prompts":[{"name":"p",` + oddPrompt + `]}`,
		mcp.MethodListResources:         `{"resources":[{"uri":"lib://a",` + oddResource + `]}`,
		mcp.MethodListResourceTemplates: `{"resourceTemplates":[{"uriTemplate":"lib://b/{x}",` + strings.Replace(oddResource, `"size":3,`, "", 1) + `]}`,
	}
}

// first returns the source of the only element of a list.
func first[E any](t *testing.T, list iter.Seq2[*E, error], source func(*E) json.RawMessage) string {
	t.Helper()
	var all []string
	for e, err := range list {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(source(e)))
	}
	if len(all) != 1 {
		t.Fatalf("the list is %s, want one element", all)
	}
	return all[0]
}

// White space between tokens is not kept.
func TestDefinitionsAreForwardedUnchanged(t *testing.T) {
	compact := func(text string) string { return strings.ReplaceAll(text, `[ 1e2]`, `[1e2]`) }
	for _, revision := range []mcp.Revision{mcp.V20250618, mcp.V20251125, mcp.V20260728} {
		c := mcptest.Dial(t, gatewayTo(t, oddUpstream().start(t, "up")), mcptest.WithRevision(revision))
		keep := client.WithSource()
		for got, want := range map[string]string{
			first(t, c.Tools(t.Context(), keep), func(t *mcp.Tool) json.RawMessage { return t.Source }):         `{"name":"up__t",` + oddTool,
			first(t, c.Prompts(t.Context(), keep), func(p *mcp.Prompt) json.RawMessage { return p.Source }):     `{"name":"up__p",` + oddPrompt,
			first(t, c.Resources(t.Context(), keep), func(r *mcp.Resource) json.RawMessage { return r.Source }): `{"uri":"lib://a",` + oddResource,
			first(t, c.ResourceTemplates(t.Context(), keep), func(r *mcp.ResourceTemplate) json.RawMessage { return r.Source }): `{"uriTemplate":"lib://b/{x}",` +
				strings.Replace(oddResource, `"size":3,`, "", 1),
		} {
			if got != compact(want) {
				t.Errorf("%s: the definition is\n%s\nwant\n%s", revision, got, compact(want))
			}
		}
	}
}

// The parts that an older revision does not define are removed, and nothing else.
func TestForwardedDefinitionsAreDowngraded(t *testing.T) {
	c := mcptest.Dial(t, gatewayTo(t, oddUpstream().start(t, "up")), mcptest.WithRevision(mcp.V20241105))
	got := first(t, c.Tools(t.Context(), client.WithSource()), func(t *mcp.Tool) json.RawMessage { return t.Source })
	if want := `{"name":"up__t",` + odd + `,"inputSchema":{"type":"object","x-order":[2,1]}}`; got != want {
		t.Errorf("the tool is\n%s\nwant\n%s", got, want)
	}
}

func TestResultsAreForwardedUnchanged(t *testing.T) {
	const (
		link    = `{"type":"resource_link","uri":"lib://c","name":"c",` + odd + `,` + oddAnnotation + `}`
		text    = `{"type":"text","text":"caf\u00e9\n",` + oddAnnotation + `,` + oddMeta + `,"x-unknown":1}`
		content = `"content":[` + text + `,` + link + `,{"type":"resource","resource":{"uri":"lib://d","mimeType":"","text":"d","x-unknown":0},"x":1}]`
		called  = content + `,"structuredContent":{"n":1.0},"isError":false,"x-unknown":{"b":1,"a":2},` + oddMeta
		got     = `"description":"","messages":[{"role":"user","content":` + text + `,"x-unknown":0},{"content":` + link + `,"role":"assistant"}],"x":0`
		read    = `"contents":[{"text":"t","uri":"lib://a","x-unknown":0},{"uri":"lib://a/b","blob":"AAA="}],"x":0`
	)
	up := oddUpstream()
	up[mcp.MethodCallTool] = `{` + called + `}`
	up[mcp.MethodGetPrompt] = `{` + got + `}`
	up[mcp.MethodReadResource] = `{` + read + `}`
	members := func(source json.RawMessage) string { // without those of the gateway
		for _, own := range []string{`"resultType":"complete",`, `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"gateway","version":"1"}},`, `"ttlMs":0,"cacheScope":"private",`} {
			source = json.RawMessage(strings.Replace(string(source), own, "", 1))
		}
		return strings.ReplaceAll(string(source), " ", "")
	}
	for _, revision := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
		c := mcptest.Dial(t, gatewayTo(t, up.start(t, "up")), mcptest.WithRevision(revision))
		check := func(what string, source json.RawMessage, err error, want string) {
			t.Helper()
			if got := members(source); err != nil || got != members(json.RawMessage(want)) {
				t.Errorf("%s: the result of %s is\n%s, %v, want\n%s", revision, what, got, err, want)
			}
		}
		if result, err := c.CallTool(t.Context(), "up__t", nil, client.WithSource()); err != nil {
			t.Error(err)
		} else if revision.Modern() { // _meta also has the gateway's name, and comes first
			meta, _ := jsonrpc.Get(result.Source, "_meta")
			kept, _ := jsonrpc.Get(meta, "example.com/k")
			check("_meta", kept, nil, `[ 1e2]`)
			rest := strings.Replace(string(result.Source), `"_meta":`+string(meta)+`,`, "", 1)
			check("tools/call", json.RawMessage(rest), nil, `{`+strings.TrimSuffix(called, `,`+oddMeta)+`}`)
		} else {
			check("tools/call", result.Source, nil, `{`+called+`}`)
		}
		prompt, err := c.GetPrompt(t.Context(), "up__p", nil, client.WithSource())
		if err != nil {
			t.Fatal(err)
		}
		check("prompts/get", prompt.Source, err, `{`+got+`}`)
		contents, err := c.ReadResource(t.Context(), "lib://a", client.WithSource())
		if err != nil {
			t.Fatal(err)
		}
		source := string(contents.Source)
		for _, hint := range []string{`,"ttlMs":0`, `,"cacheScope":"private"`} {
			source = strings.Replace(source, hint, "", 1)
		}
		check("resources/read", json.RawMessage(source), err, `{`+read+`}`)
	}
}

func TestCompletionsAreForwardedWithTotal(t *testing.T) {
	up := oddUpstream()
	up[mcp.MethodComplete] = `{"completion":{"values":["a","b"],"total":4711,"hasMore":true}}`
	references := map[string]mcp.CompleteReference{
		"prompt":   {Type: mcp.RefPrompt, Name: "up__p"},
		"template": {Type: mcp.RefResource, URI: "lib://b/{x}"},
	}
	c := mcptest.Dial(t, gatewayTo(t, up.start(t, "up")))
	for name, argument := range map[string]string{"prompt": "a", "template": "x"} {
		got, err := c.Complete(t.Context(), completeParams(references[name], argument))
		if err != nil || len(got.Values) != 2 || got.Total == nil || *got.Total != 4711 || !got.HasMore {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func completeParams(ref mcp.CompleteReference, argument string) mcp.CompleteParams {
	return mcp.CompleteParams{Ref: ref, Argument: mcp.CompleteArgument{Name: argument}}
}

func TestErrorsForTheCallerAreForwarded(t *testing.T) {
	const required = `{"code":-32042,"message":"open a page","data":{"elicitations":[{"mode":"url","url":"https://example.com/","message":"please","elicitationId":"7","x":0}],"x":1}}`
	up := oddUpstream()
	for text, revisions := range map[string][]mcp.Revision{
		`{"code":1234,"message":"of the server","data":{"k":1.50}}`: mcp.Revisions(),
		`{"code":-32602,"message":"which?","data":{"k":[1]}}`:       mcp.Revisions(),
		required: {mcp.V20251125},
	} {
		up[mcp.MethodCallTool], up[mcp.MethodGetPrompt], up[mcp.MethodReadResource] = "error "+text, "error "+text, "error "+text
		for _, revision := range revisions {
			c := mcptest.Dial(t, gatewayTo(t, up.start(t, "up")), mcptest.WithRevision(revision))
			_, called := c.CallTool(t.Context(), "up__t", nil)
			_, prompted := c.GetPrompt(t.Context(), "up__p", nil)
			_, read := c.ReadResource(t.Context(), "lib://a")
			for _, err := range []error{called, prompted, read} {
				var reported *jsonrpc.Error
				want := strings.Replace(text, `"please"`, `"The server \"up\" asks:\n\n> please"`, 1)
				if !errors.As(err, &reported) || string(jsonrpc.AppendError(nil, jsonrpc.ID{}, reported, false)) != string(jsonrpc.AppendError(nil, jsonrpc.ID{}, errorOf(want), false)) {
					t.Errorf("%s: %v, want %s", revision, err, want)
				}
			}
		}
	}
}

func errorOf(text string) *jsonrpc.Error {
	e := new(jsonrpc.Error)
	if err := json.Unmarshal([]byte(text), e); err != nil {
		panic(err)
	}
	return e
}

// A client of 2026-07-28 is asked to have its user open the URL, and the call is repeated.
func TestRequiredURLsAreForwardedToModernClients(t *testing.T) {
	up := oddUpstream()
	up[mcp.MethodCallTool] = `error {"code":-32042,"message":"open","data":{"elicitations":[{"mode":"url","url":"https://example.com/","message":"please","elicitationId":"7"}]}}`
	var asked []string
	c := mcptest.Dial(t, gatewayTo(t, up.start(t, "up")), func(d *client.Dialer) {
		d.ElicitURL = func(_ context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			asked = append(asked, params.URL+" "+params.Message)
			return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
		}
	})
	result, err := c.CallTool(t.Context(), "up__t", nil)
	if len(asked) == 0 || asked[0] != "https://example.com/ "+asksOf("up")+"please" {
		t.Errorf("the user is asked %q; the result is %+v, %v", asked, result, err)
	}
}

func TestMetaOfRequestsIsForwarded(t *testing.T) {
	got := make(chan string, 1)
	upstream := &server.Server{}
	server.AddTool(upstream, mcp.Tool{Name: "t"}, func(ctx context.Context, _ none) (string, error) {
		c := call.From(ctx)
		got <- string(c.Meta("example.com/k")) + " " + string(c.Meta(mcp.MetaTraceParent))
		return "", nil
	})
	const parent = `"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"`
	mcptest.Everywhere(t, func() *server.Server {
		return gatewayTo(t, inMemory(t, "up", upstream))
	}, func(t *testing.T, c *client.Client) {
		meta := mcp.Meta{"example.com/k": json.RawMessage(`{"a":1.50}`), mcp.MetaTraceParent: json.RawMessage(parent)}
		if _, err := c.CallTool(t.Context(), "up__t", nil, client.WithMeta(meta)); err != nil {
			t.Fatal(err)
		}
		if text := <-got; text != `{"a":1.50} `+parent {
			t.Errorf("the server received %s", text)
		}
	})
}
