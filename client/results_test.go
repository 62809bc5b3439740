package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/schema"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

const (
	numberSchema = `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`
	textSchema   = `{"type":"object","properties":{"n":{"type":"string"}},"required":["n"]}`
)

func listedWith(output string) string {
	return `"result":{"tools":[{"name":"count","inputSchema":{"type":"object"},"outputSchema":` + output + `}]}`
}

func structured(value string) string {
	return `"result":{"content":[{"type":"text","text":"x"}],"structuredContent":` + value + `}`
}

// withTool returns a server with the given responses to tools/list and tools/call.
func withTool(s *script, list []string, calls ...string) *script {
	s.Answers["tools/list"], s.Answers["tools/call"] = list, calls
	return s
}

// Rule V6: a result that does not match the output schema is an error that contains the result.
func TestResultsAreValidated(t *testing.T) {
	for _, s := range []*script{modernServer(), legacyServer()} {
		synctest.Test(t, func(t *testing.T) {
			c, rec := dial(t, withTool(s, []string{listedWith(numberSchema)},
				structured(`{"n":"one"}`), structured(`{"n":1}`), structured(`{"n":"one"}`), content(""),
				`"result":{"content":[],"isError":true}`, structured(`{"n":2}`)))
			must.Check(t, must.Err(c.CallTool(t.Context(), "count", nil)), "before the tools are listed")
			names(t, c)
			must.Check(t, must.Err(c.CallTool(t.Context(), "count", nil)), "valid result")
			_, err := c.CallTool(t.Context(), "count", nil)
			var output *client.OutputError
			var invalid *schema.ValidationError
			must.CheckThat(t, errors.As(err, &output) && errors.As(err, &invalid) &&
				errors.Is(err, call.ErrInvalidResponse) && string(output.Result.StructuredContent) == `{"n":"one"}` &&
				output.Tool == "count", "invalid result: %v", err)
			if _, err = c.CallTool(t.Context(), "count", nil); !errors.As(err, &output) || output.Result == nil {
				t.Errorf("a result without structured content: %v", err)
			}
			result := must.Get(c.CallTool(t.Context(), "count", nil))(t)
			must.CheckThat(t, result.IsError, "a tool that failed")
			n := must.Get(client.CallTool[map[string]int](t.Context(), c, "count", nil))(t)
			must.CheckEqual(t, n["n"], 2, n)
			c.Close()
			received := rec.methods()
			must.CheckEqual(t, strings.Count(received, "tools/list"), 1, "the server received", received)
		})
	}
}

// A tool may have changed since it was listed. The client lists it again before it rejects a result.
func TestOldSchemaIsFetchedBeforeAResultIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, rec := dial(t, withTool(modernServer(), []string{listedWith(numberSchema), listedWith(textSchema)},
			structured(`{"n":"one"}`), structured(`{"n":1}`)))
		names(t, c)
		time.Sleep(time.Minute)
		must.Check(t, must.Err(c.CallTool(t.Context(), "count", nil)))
		for range 3 {
			var output *client.OutputError
			_, err := c.CallTool(t.Context(), "count", nil)
			must.CheckThat(t, errors.As(err, &output), "got %v", err)
		}
		c.Close()
		received := rec.methods()
		must.CheckThat(t, strings.Count(received, "tools/list") == 2 && strings.Count(received, "tools/call") == 4,
			"the server received %s", received)
	})
}

// dialLogged connects to s in memory. It returns the log of the client.
func dialLogged(t *testing.T, s *script) (*client.Client, *bytes.Buffer) {
	t.Helper()
	to, _ := target(s)
	log := new(bytes.Buffer)
	d := client.Dialer{Logger: slog.New(slog.NewTextHandler(log, nil))}
	c := must.Get(d.Dial(t.Context(), to))(t)
	t.Cleanup(func() { c.Close() })
	return c, log
}

// Rule V5: the client logs an invalid output schema once and returns the results.
func TestInvalidOutputSchemaIsLogged(t *testing.T) {
	for _, output := range []string{`{"$schema":"https://example.com/mine","type":"object"}`, `{"type":12}`,
		`{"$ref":"https://example.com/x"}`} {
		synctest.Test(t, func(t *testing.T) {
			c, log := dialLogged(t, withTool(modernServer(), []string{listedWith(output)}, structured(`{"n":"one"}`)))
			names(t, c)
			for range 2 {
				must.Check(t, must.Err(c.CallTool(t.Context(), "count", nil)), output)
			}
			must.CheckEqual(t, strings.Count(log.String(), "cannot validate"), 1, output, log.String())
		})
	}
}

// The number of remembered output schemas is limited.
func TestOutputSchemasAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lists []string
		for page := range 12 {
			var b strings.Builder
			for i := range 1000 {
				fmt.Fprintf(&b, `{"name":"t%d","inputSchema":{"type":"object"},"outputSchema":%s},`, page*1000+i,
					numberSchema)
			}
			lists = append(lists, fmt.Sprintf(`"result":{"nextCursor":"%d","tools":[%s]}`, page,
				strings.TrimSuffix(b.String(), ",")))
		}
		lists = append(lists, `"result":{"tools":[]}`)
		c, _ := dial(t, withTool(modernServer(), lists, structured(`{"n":"one"}`)))
		names(t, c)
		must.Check(t, must.Err(c.CallTool(t.Context(), "t0", nil)), "the schema of the first tool was not evicted")
		var output *client.OutputError
		_, err := c.CallTool(t.Context(), "t11999", nil)
		must.CheckThat(t, errors.As(err, &output), "the schema of the last tool was not applied: %v", err)
	})
}

// The parts of a schema that cannot be checked are logged once. The others are checked.
func TestUncheckedKeywordsOfOutputSchemasAreLogged(t *testing.T) {
	const lookahead = `{"type":"object","properties":{"n":{"type":"string","pattern":"^(?=a)a$"},` +
		`"m":{"pattern":"(?!b)"}},"required":["n"]}`
	for _, s := range []*script{modernServer(), legacyServer()} {
		synctest.Test(t, func(t *testing.T) {
			c, log := dialLogged(t, withTool(s, []string{listedWith(lookahead)}, structured(`{"n":"b"}`),
				structured(`{"n":1}`)))
			names(t, c)
			must.Check(t, must.Err(c.CallTool(t.Context(), "count", nil)))
			_, err := c.CallTool(t.Context(), "count", nil)
			must.CheckThat(t, errors.As(err, new(*client.OutputError)), "got %v, want an *OutputError", err)
			got := log.String()
			must.CheckThat(t, strings.Count(got, "\n") == 1 && strings.Contains(got, "tool=count") &&
				strings.Contains(got, "count=2") && strings.Contains(got, "/pattern"), "the log is %s", got)
		})
	}
}

// Rule H10: over HTTP, icons come from the server's origin. On every transport, their schemes are
// safe.
func TestIconsAreOfTheServersOrigin(t *testing.T) {
	var icons mcp.Icons
	s := &server.Server{Name: "s", Version: "1"}
	web := httptest.NewTLSServer(s)
	defer web.Close()
	for _, src := range []string{
		web.URL + "/icon.png", "https://tracker.example/icon.png", "data:image/png;base64,AA==",
		"javascript:alert(1)", "file:///etc/passwd", "http://127.0.0.1/icon.png",
	} {
		icons = append(icons, mcp.Icon{Src: src})
	}
	type none struct{}
	s.Info.Icons = icons
	link := &mcp.ResourceLink{URI: "note://a", Name: "a", Icons: icons}
	server.AddTool(s, mcp.Tool{Name: "a", Icons: icons},
		func(context.Context, none) ([]mcp.Content, error) { return []mcp.Content{link}, nil })
	server.AddPrompt(s, mcp.Prompt{Name: "a", Icons: icons}, func(context.Context, none) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{Role: mcp.RoleUser, Content: link}}}, nil
	})
	server.AddStatic(s, mcp.Resource{URI: "note://a", Name: "a", Icons: icons}, "a")
	server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: "note://{x}", Name: "a", Icons: icons},
		func(context.Context, struct {
			X string `json:"x"`
		}) (string, error) {
			return "", nil
		})
	for _, r := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
		for name, want := range map[string]int{"HTTP": 2, "memory": 3} {
			t.Run(string(r)+"/"+name, func(t *testing.T) {
				d := quiet()
				d.Revision, d.HTTPClient = r, web.Client()
				to := client.URL(web.URL)
				if name == "memory" {
					near, far := transport.Pipe()
					served := make(chan error, 1)
					go func() { served <- s.ServeConn(context.Background(), far) }()
					defer func() { <-served }()
					to = client.Conn(near)
				}
				c := must.Get(d.Dial(t.Context(), to))(t)
				defer c.Close()
				check := func(of string, icons mcp.Icons, err error) {
					must.CheckThat(t, err == nil && len(icons) == want,
						"%s: %+v, %v; want %d icons", of, icons, err, want)
				}
				check("server", c.Server().Info.Icons, nil)
				for tool, err := range c.Tools(t.Context()) {
					check("tool", tool.Icons, err)
				}
				for prompt, err := range c.Prompts(t.Context()) {
					check("prompt", prompt.Icons, err)
				}
				for resource, err := range c.Resources(t.Context()) {
					check("resource", resource.Icons, err)
				}
				for template, err := range c.ResourceTemplates(t.Context()) {
					check("template", template.Icons, err)
				}
				result := must.Get(c.CallTool(t.Context(), "a", nil))(t)
				check("link of a tool", result.Content[0].(*mcp.ResourceLink).Icons, nil)
				prompt := must.Get(c.GetPrompt(t.Context(), "a", nil))(t)
				check("link of a prompt", prompt.Messages[0].Content.(*mcp.ResourceLink).Icons, nil)
				check("server", c.Server().Info.Icons, nil)
			})
		}
	}
}

// Rule J18: cursors are opaque, and may be empty.
func TestListsFollowCursors(t *testing.T) {
	s := modernServer()
	page := func(name, next string) string {
		return `"result":{"tools":[{"name":"` + name + `","inputSchema":{"type":"object"}}]` + next + `}`
	}
	s.Answers["tools/list"] = []string{page("a", `,"nextCursor":""`), page("b", `,"nextCursor":" \n\"x"`),
		page("c", "")}
	to, _ := target(s)
	var cursors []string
	d := quiet()
	d.Trace = func(sent bool, message []byte) {
		if m, err := jsonrpc.Parse(message, jsonrpc.Limits{}); sent && err == nil && m.Method == mcp.MethodListTools {
			raw, _ := m.Params.Get("cursor")
			cursors = append(cursors, string(raw))
		}
	}
	c := must.Get(d.Dial(t.Context(), to))(t)
	defer c.Close()
	var names []string
	for tool, err := range c.Tools(t.Context()) {
		must.Do(t, err)
		names = append(names, tool.Name)
	}
	must.CheckEqual(t, strings.Join(names, " "), "a b c")
	must.CheckEqual(t, strings.Join(cursors, "; "), `; ""; " \n\"x"`)
}

// pages returns the successive results of tools/list: n pages whose first tools are
// named 0, 1, … and whose cursors are the same numbers.
func pages(n, toolsPerPage, bytesPerTool int) []string {
	all := make([]string, n)
	tool := 0
	for i := range all {
		var tools []string
		for range toolsPerPage {
			tools = append(tools, fmt.Sprintf(`{"name":"%d","description":"%s","inputSchema":{}}`, tool,
				strings.Repeat("d", bytesPerTool)))
			tool++
		}
		all[i] = fmt.Sprintf(`"result":{"tools":[%s],"nextCursor":"%d"}`, strings.Join(tools, ","), i)
	}
	return all
}

// Rule J18: the entries and bytes of a list are limited, not the number of its pages. The entries
// before the limit are valid.
func TestListsAreLimited(t *testing.T) {
	last := pages(200, 1, 0)
	emptyCursor := strings.Replace(pages(1, 2, 0)[0], `"nextCursor":"0"`, `"nextCursor":""`, 1)
	last[199] = strings.Replace(last[199], `,"nextCursor":"199"`, "", 1)
	for name, test := range map[string]struct {
		pages             []string
		entries, requests int
		reason            string
	}{
		"many pages":       {last, 200, 200, ""},
		"repeated cursor":  {pages(1, 2, 0), 2, 2, ""},
		"cycle of cursors": {append(pages(3, 1, 0), `"result":{"tools":[],"nextCursor":"1"}`), 3, 4, ""},
		"ignored cursor": {[]string{pages(1, 2, 0)[0], strings.Replace(pages(1, 2, 0)[0], `"nextCursor":"0"`,
			`"nextCursor":"1"`, 1)}, 2, 2, ""},
		"empty cursor": {[]string{emptyCursor}, 2, 2, ""},
		"empty cursor, ignored": {[]string{emptyCursor, strings.Replace(emptyCursor, `,"nextCursor":""`, "", 1)},
			2, 2, ""},
		"empty cursor, rejected": {[]string{emptyCursor, `"error":{"code":-32602,"message":"cursor"}`}, 2, 2, ""},
		"overlapping pages": {[]string{`"result":{"tools":[{"name":"a","inputSchema":{}}],"nextCursor":"0"}`,
			`"result":{"tools":[{"name":"a","inputSchema":{}},{"name":"b","inputSchema":{}}],"nextCursor":"0"}`}, 2, 2,
			""},
		"empty pages": {pages(100, 0, 0), 0, 64, "64 empty pages"},
		"entries":     {pages(102, 1000, 0), 100_000, 100, "100000 entries"},
		"bytes":       {pages(10, 1, 8<<20), 8, 8, "64 MiB"},
	} {
		for era, s := range map[string]*script{"2026-07-28": modernServer(), "2025-06-18": legacyServer()} {
			t.Run(name+"/"+era, func(t *testing.T) {
				s.Answers["tools/list"] = test.pages
				c, rec := dial(t, s)
				entries := 0
				var last error
				for _, err := range c.Tools(t.Context()) {
					if last = err; err == nil {
						entries++
					}
				}
				switch {
				case entries != test.entries:
					t.Errorf("%d entries, want %d; the error is %v", entries, test.entries, last)
				case test.reason == "" && last != nil:
					t.Error(last)
				case test.reason != "" && (!errors.Is(last, client.ErrIncompleteList) ||
					!errors.Is(last, call.ErrInvalidResponse) ||
					!strings.Contains(last.Error(), fmt.Sprintf("after %d entries: ", entries)) ||
					!strings.Contains(last.Error(), test.reason)):
					t.Errorf("got %#v, want the reason %q", last, test.reason)
				}
				c.Close()
				must.CheckEqual(t, strings.Count(rec.methods(), "tools/list"), test.requests)
			})
		}
	}
}

func TestLeavingTheLoopStopsTheList(t *testing.T) {
	s := modernServer()
	s.Answers["tools/list"] = []string{`"result":{"tools":[{"name":"a","inputSchema":{}},{"name":"b",` +
		`"inputSchema":{}}],"nextCursor":"x"}`}
	c, rec := dial(t, s)
	for range c.Tools(t.Context()) {
		break
	}
	c.Close()
	must.CheckEqual(t, strings.Count(rec.methods(), "tools/list"), 1)
}

func TestTextIsNotDecodedOnRequest(t *testing.T) {
	newServer := func() *server.Server {
		s := &server.Server{}
		for name, content := range map[string]mcp.Content{
			"text": mcp.Text("text"), "image": mcp.Image([]byte{1}, "image/png"),
			"note": &mcp.TextContent{Text: "text", Annotations: &mcp.Annotations{Audience: []mcp.Role{mcp.RoleUser}}},
		} {
			server.AddTool(s, mcp.Tool{Name: name}, func(context.Context, struct{}) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{Content: []mcp.Content{content}, StructuredContent: []byte(`{"a":1}`),
					IsError: true}, nil
			})
		}
		return s
	}
	mcptest.Everywhere(t, newServer, func(t *testing.T, c *client.Client) {
		for name, decoded := range map[string]bool{"text": false, "image": false, "note": true} {
			result, err := c.CallTool(t.Context(), name, nil, client.WithUndecodedText())
			must.CheckThat(t, err == nil && (result.Content != nil) == decoded && result.Source != nil &&
				result.IsError && (string(result.StructuredContent) == `{"a":1}`) == (c.Revision() >= mcp.V20250618),
				"%s: %+v, %v", name, result, err)
		}
	})
}
