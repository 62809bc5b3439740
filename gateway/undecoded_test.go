package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// The fields of a result whose content is text, which the gateway does not decode.
const (
	textBlocks  = `"content":[{"type":"text","text":"caf\u00e9\n\\","x-unknown":1.50},{"x":[],"text":"","type":"text"}]`
	textMembers = textBlocks + `,"x-unknown":{"b":1e2,"a":"\u00e9"},"ttlMs":7`
	keptMeta    = `"_meta":{"example.com/z":[1e2],"example.com/a":"\u00e9"}`
	sentMeta    = `"_meta":{"example.com/z":[1e2],"io.modelcontextprotocol/serverInfo":{"name":"up","version":"1"},` +
		`"example.com/a":"\u00e9"}`
)

// textUpstream returns a server with the tool t.
func textUpstream(result string) upstream {
	return upstream{mcp.MethodListTools: `{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`,
		mcp.MethodCallTool: result}
}

// calledAt returns the result of t as a client of revision r receives it from a gateway.
func calledAt(t *testing.T, s *server.Server, r mcp.Revision) (*mcp.CallToolResult, error) {
	t.Helper()
	return mcptest.Dial(t, s, mcptest.WithRevision(r)).CallTool(t.Context(), "up__t", nil, client.WithSource())
}

// object returns an object with these fields; an empty string is left out.
func object(members ...string) string {
	return "{" + strings.Join(slices.DeleteFunc(members, func(m string) bool { return m == "" }), ",") + "}"
}

// expect fails the test unless the source of a result contains exactly these fields, in
// this order. In 2026-07-28, the gateway adds its own fields, and _meta comes first.
func expect(t *testing.T, what string, r mcp.Revision, result *mcp.CallToolResult, meta string, members ...string) {
	t.Helper()
	if r.Modern() {
		own := `"_meta":` + object(`"io.modelcontextprotocol/serverInfo":{"name":"gateway","version":"1"}`,
			strings.TrimSuffix(strings.TrimPrefix(meta, `"_meta":{`), "}"))
		members = append([]string{`"resultType":"complete"`, own}, members...)
	} else {
		members = append([]string{meta}, members...)
	}
	must.CheckEqual(t, string(result.Source), object(members...), what)
}

// The sender and the receiver of a result may have any two revisions.
func TestTextIsForwardedBetweenAllRevisions(t *testing.T) {
	for _, from := range mcp.Revisions() {
		kind := ""
		if from.Modern() {
			kind = `"resultType":"complete"`
		}
		for structured, isError := range map[string]string{
			"": "", `"structuredContent":{"n":1.0,"m":{"\u0061":null}}`: `"isError":true`,
			`"structuredContent":[1.0]`: `"isError":false`, `"structuredContent":null`: "",
		} {
			up := textUpstream(object(kind, sentMeta, textMembers, isError, structured))
			s := gatewayTo(t, up.at(from).start(t, "up"))
			for _, to := range mcp.Revisions() {
				what := fmt.Sprintf("%s to %s, %s %s", from, to, isError, structured)
				result, err := calledAt(t, s, to)
				must.Do(t, err, what)
				kept := structured
				switch {
				case to < mcp.V20250618 || !to.Modern() && strings.HasSuffix(structured, "null"):
					kept = ""
				case !to.Modern():
					kept = strings.Replace(structured, `[1.0]`, `{"result":[1.0]}`, 1)
				}
				expect(t, what, to, result, keptMeta, textMembers, isError, kept)
				if text := result.Content[0].(*mcp.TextContent).Text; text != "café\n\\" ||
					result.IsError != strings.Contains(isError, "true") {
					t.Errorf("%s: %q, %v", what, text, result.IsError)
				}
			}
		}
	}
}

// Results with blocks other than text keep the bytes of the server, too. Blocks that a revision
// does not define are changed.
func TestOtherBlocksAreForwardedBetweenAllRevisions(t *testing.T) {
	const (
		image = `{"mimeType":"a/b","data":"\u0041AAA","type":"image","x-unknown":1.50}`
		audio = `{"type":"audio","data":"AAAA","mimeType":"a/b","x":[]}`
		note  = `{"type":"text","text":"\u0061","annotations":{"priority":0.50,"x":0,` +
			`"lastModified":"2025-01-01T00:00:00Z"},"_meta":{"a/b":1.0}}`
		unknown = `{"x":1.50,"type":"hologram"}`
		plain   = `"content":[` + image + `,` + unknown + `],"x-unknown":{"b":1e2},"isError":false`
		content = `"content":[` + image + `,` + audio + `,` + note + `,` + unknown +
			`],"x-unknown":{"b":1e2},"isError":true`
	)
	for _, from := range mcp.Revisions() {
		for _, members := range []string{plain, content} {
			s := gatewayTo(t, textUpstream(object(members, sentMeta)).at(from).start(t, "up"))
			for _, to := range mcp.Revisions() {
				result := must.Get(calledAt(t, s, to))(t)
				what := fmt.Sprintf("%s to %s", from, to)
				switch {
				case to.Modern():
					expect(t, what, to, result, keptMeta, members)
				case to >= mcp.V20250618 || members == plain:
					expect(t, what, to, result, "", members, keptMeta)
				default:
					for _, removed := range []string{"lastModified", `"a/b":1`} {
						must.CheckThat(t, !strings.Contains(string(result.Source), removed),
							"%s: %s has %s", what, result.Source, removed)
					}
					if _, isText := result.Content[1].(*mcp.TextContent); isText != (to < mcp.V20250326) ||
						!result.IsError {
						t.Errorf("%s: %s", what, result.Source)
					}
				}
			}
		}
	}
}

// Entries of _meta that the protocol defines, and an empty _meta, are not forwarded.
func TestMembersOfTheConnectionAreNotForwarded(t *testing.T) {
	for _, meta := range []string{``, `,"_meta":{}`,
		`,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"up"},"not a key":1,` +
			`"io.modelcontextprotocol/subscriptionId":1}`} {
		s := gatewayTo(t, textUpstream(`{`+textBlocks+meta+`,"resultType":"complete"}`).start(t, "up"))
		for _, to := range mcp.Revisions() {
			result := must.Get(calledAt(t, s, to))(t)
			expect(t, string(to)+meta, to, result, "", textBlocks)
		}
	}
}

// On a byte stream, a message is one line. Over HTTP, it need not be.
func TestForwardedTextHasNoLineBreaks(t *testing.T) {
	up := textUpstream("{\r\n\"content\" :\n[ {\"type\":\"text\",\r\n\"text\":\"a\"}\n]," +
		"\"x\":{\n}\n}").at(mcp.V20260728)
	mcptest.Everywhere(t, func() *server.Server {
		return gatewayTo(t, up.startHTTP(t, "up"))
	}, func(t *testing.T, c *client.Client) {
		for range 2 { // a line break would end the message
			result, err := c.CallTool(t.Context(), "up__t", nil, client.WithSource())
			must.CheckThat(t, err == nil && len(result.Content) == 1 &&
				!strings.ContainsAny(string(result.Source), "\r\n"), "%+v, %v", result, err)
		}
	})
}

// The result of a tool is not lost because part of it is faulty.
func TestFaultsOfResultsAreContained(t *testing.T) {
	const text, image = `{"type":"text","text":"good"}`, `{"type":"image","data":"?","mimeType":"a/b"}`
	for result, want := range map[string]string{
		`"content":[` + text + `,7]`: text, `"content":` + text: text, `"content":"good"`: text,
		`"content":[{"type":"text","text":7},` + text + `]`:         text,
		`"content":[{"type":"text","text":"good","annotations":7}]`: text,
		`"content":[{"type":"text","text":"good","_meta":[]}]`:      text,
		`"content":[` + text + `],"isError":"no"`:                   text, `"content":[` + text + `],"_meta":7`: text,
		`"content":[{"type":"text","text":"good\ud800"}]`: `{"type":"text","text":"good�"}`,
		// What needs no decoding arrives unchanged.
		`"content":[` + text + `,` + image + `]`: text + `,` + image,
	} {
		for _, from := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
			s := gatewayTo(t, textUpstream(`{`+result+`}`).at(from).start(t, "up"))
			for _, to := range []mcp.Revision{mcp.V20241105, mcp.V20251125, mcp.V20260728} {
				got, err := mcptest.Dial(t, s, mcptest.WithRevision(to)).CallTool(t.Context(), "up__t", nil,
					client.WithUndecodedText())
				if err != nil {
					t.Errorf("%s from %s to %s: %v", result, from, to, err)
					continue
				}
				raw, _ := jsonrpc.Get(got.Source, "content")
				content := strings.NewReplacer("\\ufFfD", "�", `,"_meta":{}`, "").Replace(string(raw))
				if want := "[" + want + "]"; content != want || got.IsError != strings.Contains(result, "isError") {
					t.Errorf("%s from %s to %s: %s, want %s", result, from, to, got.Source, want)
				}
			}
		}
	}
}

// An invalid result does not reach the client.
func TestInvalidTextIsNotForwarded(t *testing.T) {
	for _, invalid := range []string{
		`"content":[{"type":"text","text":"evil"}],"content":[]`, `"content":[{"type":"text","text":"evil","text":""}]`,
		`"content":[{"type":"text","text":"evil"}],"x":{"a":1,"\u0061":2}`,
		`"content":[{"type":"text","text":"evil","\ud800":1}]`,
		"\"content\":[{\"type\":\"text\",\"text\":\"evil\xff\"}]",
		"\"content\":[{\"type\":\"text\",\"text\":\"evil\x00\"}]",
		`"content":[{"type":"text","text":"evil"}],"x":01`, `"content":[{"type":"text","text":"evil"}]}`,
		`"content":[{"type":"text","text":"evil"}],"resultType":"input_required"`,
		`"content":[{"type":"text","text":"evil"}],"resultType":"x"`,
		`"content":[{"type":"text","text":"evil"}],"resultType":7`,
	} {
		for _, from := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
			if strings.Contains(invalid, "resultType") && !from.Modern() {
				continue // an unknown field
			}
			s := gatewayTo(t, textUpstream(`{`+invalid+`}`).at(from).start(t, "up"))
			for _, to := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
				result, err := calledAt(t, s, to)
				if err == nil && !result.IsError || err == nil && strings.Contains(string(result.Source), "evil") &&
					!strings.Contains(string(result.Source), "up\\\"") {
					t.Errorf("%q from %s to %s: %s, %v", invalid, from, to, result.Source, err)
				}
			}
		}
	}
}

// Middleware of the gateway's server receives a decoded result, and can change every part of it.
func TestMiddlewareOfTheGatewayReceivesForwardedText(t *testing.T) {
	up := textUpstream(`{` + textMembers + `,` + sentMeta + `,"structuredContent":{"n":1}}`)
	for name, change := range map[string]func(*mcp.CallToolResult) *mcp.CallToolResult{
		"nothing": func(r *mcp.CallToolResult) *mcp.CallToolResult { return r },
		"a field": func(r *mcp.CallToolResult) *mcp.CallToolResult { r.IsError = true; return r },
		"a block": func(r *mcp.CallToolResult) *mcp.CallToolResult { r.Content[0] = mcp.Text("hidden"); return r },
		"a text": func(r *mcp.CallToolResult) *mcp.CallToolResult {
			r.Content[0].(*mcp.TextContent).Text = "hidden"
			return r
		},
		"structured content": func(r *mcp.CallToolResult) *mcp.CallToolResult {
			r.StructuredContent[5] = '2'
			return r
		},
		"a key of meta": func(r *mcp.CallToolResult) *mcp.CallToolResult {
			delete(r.Meta, "example.com/z")
			return r
		},
		"a copy": func(r *mcp.CallToolResult) *mcp.CallToolResult {
			changed := *r
			changed.Content = nil
			return &changed
		},
		"the result": func(*mcp.CallToolResult) *mcp.CallToolResult {
			return &mcp.CallToolResult{Content: []mcp.Content{}}
		},
	} {
		seen := 0
		s := &server.Server{Name: "gateway", Version: "1",
			Middleware: []call.Middleware{func(next call.Handler) call.Handler {
				return func(ctx context.Context, c *call.Call) (any, error) {
					result, err := next(ctx, c)
					called, ok := result.(*mcp.CallToolResult)
					if !ok {
						return result, err
					}
					seen++
					if text := called.Content[0].(*mcp.TextContent).Text; text != "café\n\\" ||
						called.ResultType != "" ||
						len(called.Meta) != 2 {
						t.Errorf("the middleware receives %q, %q, %s", text, called.ResultType, called.Meta)
					}
					return change(called), err
				}
			}}}
		gatewaytest.Run(t, &host.Host{Servers: []host.ServerConfig{up.start(t, "up")}}, s)
		for _, to := range mcp.Revisions() {
			seen = 0
			result := must.Get(calledAt(t, s, to))(t)
			must.Equal(t, seen, 1, name, to)
			got, structured := string(result.Source), to >= mcp.V20250618
			ok := map[string]bool{
				"a field": result.IsError && strings.Contains(got, `"x-unknown":1.50`),
				"a block": strings.Contains(got, "hidden") && !strings.Contains(got, "caf"),
				"a text":  strings.Contains(got, "hidden") && !strings.Contains(got, "caf"),
				"structured content": strings.Contains(got, `{"n":2}`) == structured &&
					!strings.Contains(got, `{"n":1}`),
				"a key of meta": strings.Contains(got, `example.com/a`) && !strings.Contains(got, "example.com/z"),
				"a copy":        !strings.Contains(got, `caf`) && strings.Contains(got, "x-unknown"),
				"the result":    len(result.Content) == 0 && !strings.Contains(got, "x-unknown"),
			}
			if name == "nothing" {
				kept := ""
				if structured {
					kept = `"structuredContent":{"n":1}`
				}
				if to.Modern() {
					expect(t, name, to, result, keptMeta, textMembers, kept)
				} else {
					expect(t, name, to, result, "", textMembers, keptMeta, kept)
				}
			} else if !ok[name] {
				t.Errorf("%s, %s: the client receives %s", name, to, got)
			}
		}
	}
}

// Middleware of the client that calls the server can change every part of the result, too.
func TestMiddlewareOfTheHostReceivesForwardedText(t *testing.T) {
	for _, from := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
		for name, change := range map[string]func(*mcp.CallToolResult) any{
			"a field": func(r *mcp.CallToolResult) any { r.Content = []mcp.Content{mcp.Text("hidden")}; return r },
			"a text":  func(r *mcp.CallToolResult) any { r.Content[0].(*mcp.TextContent).Text = "hidden"; return r },
			"a copy": func(*mcp.CallToolResult) any {
				return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("hidden"),
					&mcp.ResourceLink{URI: "file:///x", Name: "x"}}}
			},
			"JSON": func(*mcp.CallToolResult) any {
				return json.RawMessage(`{"content":[{"type":"text","text":"hidden"}]}`)
			},
		} {
			h := &host.Host{Servers: []host.ServerConfig{textUpstream(`{`+textMembers+`}`).at(from).start(t, "up")}}
			h.Dialer.Middleware = []call.Middleware{func(next call.Handler) call.Handler {
				return func(ctx context.Context, c *call.Call) (any, error) {
					result, err := next(ctx, c)
					if called, ok := result.(*mcp.CallToolResult); ok {
						return change(called), err
					}
					return result, err
				}
			}}
			s := &server.Server{Name: "gateway", Version: "1"}
			gatewaytest.Run(t, h, s)
			for _, to := range mcp.Revisions() {
				result, err := calledAt(t, s, to)
				if err != nil || result.IsError || !strings.Contains(string(result.Source), `"hidden"`) ||
					strings.Contains(string(result.Source), "caf") {
					t.Errorf("%s from %s to %s: %+v, %v", name, from, to, result, err)
				}
			}
		}
	}
}

// Structured content is validated against the output schema that the client sees.
func TestForwardedStructuredContentIsValidated(t *testing.T) {
	for members, valid := range map[string]bool{
		`,"structuredContent":{"n":1}`:   true,
		`,"structuredContent":{"n":"1"}`: false,
		`,"structuredContent":{}`:        false,
		``:                               false,
		`,"isError":true`:                true,
		`,"structuredContent":{"m":1},"isError":true`:  true,
		`,"structuredContent":{"m":1},"isError":false`: false,
	} {
		up := textUpstream(`{` + textBlocks + members + `}`)
		up[mcp.MethodListTools] = `{"tools":[{"name":"t","inputSchema":{"type":"object"},` +
			`"outputSchema":{"type":"object","required":["n"],"properties":{"n":{"type":"number"}}}}]}`
		h := &host.Host{Servers: []host.ServerConfig{up.start(t, "up")}}
		s := &server.Server{Name: "gateway", Version: "1"}
		gatewaytest.Run(t, h, s)
		for _, to := range mcp.Revisions() {
			result, err := calledAt(t, s, to)
			must.CheckThat(t, err == nil && strings.Contains(string(result.Source), textBlocks) == valid &&
				(valid || result.IsError), "%s to %s: %+v, %v", members, to, result, err)
		}
	}
}

// The gateway handles a result that asks for input, and does not forward it.
func TestInputRequiredIsNotForwarded(t *testing.T) {
	up := textUpstream(`{"resultType":"input_required",` + textBlocks +
		`,"inputRequests":{"k":{"method":"elicitation/create","params":{"mode":"form","message":"m",` +
		`"requestedSchema":{"type":"object","properties":{}}}}},"requestState":"s"}`)
	s := gatewayTo(t, up.at(mcp.V20260728).start(t, "up"))
	for _, to := range mcp.Revisions() {
		result, err := calledAt(t, s, to)
		if err == nil && (!result.IsError || strings.Contains(string(result.Source), "inputRequests") ||
			strings.Contains(string(result.Source), "caf")) {
			t.Errorf("%s: %s", to, result.Source)
		}
	}
}

// A link next to text is rewritten.
func TestLinksNextToTextAreRewritten(t *testing.T) {
	first, second := oddUpstream(), oddUpstream()
	const link = `{"type":"resource_link","name":"a","uri":"lib://a","x":1.50}`
	second[mcp.MethodListTools] = `{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`
	second[mcp.MethodCallTool] = `{"content":[{"type":"text","text":"\u0061"},` + link + `]}`
	s := gatewayTo(t, first.start(t, "first"), second.start(t, "up"))
	for _, to := range []mcp.Revision{mcp.V20250618, mcp.V20251125, mcp.V20260728} {
		result := must.Get(calledAt(t, s, to))(t)
		content, _ := jsonrpc.Get(result.Source, "content")
		must.CheckEqual(t, string(content),
			`[{"type":"text","text":"\u0061"},`+strings.Replace(link, "lib://a", "server:up/lib://a", 1)+
				`]`, to, "the content", content)
	}
}

// The first string of a pair is the input schema of a tool of the upstream server. The second
// is the schema that clients of the gateway receive, or empty if it is the same schema.
var uncheckable = map[string][2]string{
	"lookahead":         {`{"type":"object","properties":{"p":{"type":"string","pattern":"^(?!x)a+$"}}}`, ""},
	"remote_reference":  {`{"type":"object","properties":{"p":{"$ref":"https://example.com/schema.json"}}}`, ""},
	"remote_root":       {`{"type":"object","$ref":"https://example.com/schema.json"}`, ""},
	"missing_reference": {`{"type":"object","properties":{"p":{"$ref":"#/$defs/absent"}}}`, ""},
	"unknown_dialect":   {`{"$schema":"https://example.com/dialect","type":"object"}`, ""},
	"invalid":           {`{"type":"object","properties":{"p":{"type":7,"required":"p"}}}`, ""},
	"endless":           {`{"type":"object","$ref":"#"}`, ""},
	"huge":              {`{"type":"object","properties":{"p":{"enum":["` + strings.Repeat("x", 600_000) + `"]}}}`, ""},
	"wide":              {`{"type":"object","allOf":[{}` + strings.Repeat(",{}", 30_000) + `]}`, ""},
	"deep": {`{"type":"object","properties":{"p":` + strings.Repeat(`{"not":`, 60) + `{}` +
		strings.Repeat(`}`, 61) + `}`, ""},
	"invalid_header": {`{"type":"object","properties":{"p":{"type":"object","x-mcp-header":"P"}}}`, ""},
	"secret_header":  {`{"type":"object","properties":{"token":{"type":"string","x-mcp-header":"Token"}}}`, ""},
	"without_type":   {`{"properties":{"p":{}}}`, `{"properties":{"p":{}},"type":"object"}`},
	"two_types":      {`{"x-a":1,"type":["object","null"]}`, `{"x-a":1,"type":"object"}`},
	"another_type":   {`{"type":"array"}`, `{"type":"object"}`},
	"boolean":        {`true`, `{"type":"object"}`},
}

// Every tool of an upstream is listed with its schemas, and can be called, whether or not the gateway can check them.
func TestToolsWithUncheckableSchemasAreForwarded(t *testing.T) {
	var definitions []string
	outputs := make(map[string]string)
	for name, schemas := range uncheckable {
		definitions = append(definitions, `{"name":"in_`+name+`","inputSchema":`+schemas[0]+`}`)
		if name != "boolean" {
			definitions = append(definitions, `{"name":"out_`+name+`","inputSchema":{"type":"object"},"outputSchema":`+
				schemas[0]+`}`)
			outputs["up__out_"+name] = schemas[0]
		}
	}
	up := upstream{
		mcp.MethodListTools: `{"tools":[` + strings.Join(definitions, ",") + `]}`,
		mcp.MethodCallTool:  `{"content":[{"type":"text","text":"called"}],"structuredContent":{"p":"aa"}}`,
	}
	for _, revision := range mcp.Revisions() {
		t.Run(string(revision), func(t *testing.T) {
			c := mcptest.Dial(t, gatewayTo(t, up.start(t, "up")), mcptest.WithRevision(revision))
			tools := make(map[string]*mcp.Tool)
			for _, tool := range listed(t, c) {
				tools[tool.Name] = tool
			}
			for name, schemas := range uncheckable {
				tool, want := tools["up__in_"+name], schemas[1]
				if want == "" {
					want = schemas[0]
				}
				must.CheckThat(t, tool != nil && string(tool.InputSchema) == want,
					"%s: the tool is %.200v, want the input schema %.100s", name, tool, want)
			}
			for name, want := range outputs {
				tool := tools[name]
				switch hasType := strings.Contains(want, `"type":"object"`) && !strings.Contains(name, "types"); {
				case tool == nil:
					t.Errorf("%s is not listed", name)
				case revision.Modern() || hasType && revision >= mcp.V20250618:
					must.CheckEqual(t, string(tool.OutputSchema), want, name)
				case name == "up__out_another_type" && revision >= mcp.V20250618:
					must.CheckEqual(t, string(tool.OutputSchema),
						`{"type":"object","properties":{"result":`+want+`},"required":["result"]}`)
				case tool.OutputSchema != nil:
					t.Errorf("%s has the output schema %.100s, want none", name, tool.OutputSchema)
				}
			}
			for name := range uncheckable {
				result := must.Get(c.CallTool(t.Context(), "up__in_"+name, nil))(t)
				must.CheckThat(t, !result.IsError, "%s: %+v", name, result)
			}
		})
	}
}

// The gateway applies the keywords that it can check. The server does not receive arguments that these keywords reject.
func TestArgumentsAreCheckedByTheKeywordsThatCanBeChecked(t *testing.T) {
	up := upstream{
		mcp.MethodListTools: `{"tools":[{"name":"t","inputSchema":{"type":"object",` +
			`"properties":{"p":{"type":"string","pattern":"^(?!x)a+$"}}}}]}`,
		mcp.MethodCallTool: `{"content":[{"type":"text","text":"called"}]}`,
	}
	c := mcptest.Dial(t, gatewayTo(t, up.start(t, "up")))
	result, err := c.CallTool(t.Context(), "up__t", map[string]any{"p": 7})
	must.CheckThat(t, err == nil && result.IsError, "%+v, %v, want a tool error", result, err)
}
