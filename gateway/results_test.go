package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// large returns a server whose tools return large results.
func large() *server.Server {
	s := &server.Server{Name: "large"}
	server.AddTool(s, mcp.Tool{Name: "text"}, func(context.Context, none) (string, error) { return longText, nil })
	server.AddTool(s, mcp.Tool{Name: "small"}, func(context.Context, none) (string, error) { return "small", nil })
	server.AddTool(s, mcp.Tool{Name: "structured"}, func(context.Context, none) (map[string]string, error) {
		return map[string]string{"text": longText}, nil
	})
	server.AddTool(s, mcp.Tool{Name: "image"}, func(context.Context, none) ([]mcp.Content, error) {
		return []mcp.Content{mcp.Text("see"), mcp.Image([]byte(longText), "image/png")}, nil
	})
	server.AddTool(s, mcp.Tool{Name: "fails"}, func(context.Context, none) (string, error) {
		return "", errors.New(longText)
	})
	return s
}

var longText = strings.Repeat("äöü ", 1000)

// A large result is shortened, and the complete one can be read at another replica, in every revision.
func TestLargeResultsBecomeResources(t *testing.T) {
	shared := store.NewMemory()
	var urls []string
	for range 2 { // replicas
		config := httpConfig(t, "up", large())
		config.MaxResult = 200
		s := &server.Server{Name: "gateway", Version: "1", Store: shared, Keys: [][]byte{make([]byte, 32)}}
		runWithStore(t, config, s)
		urls = append(urls, protect(t, s))
	}
	dial := func(r mcp.Revision, replica int, user string) *client.Client {
		c := must.Get((&client.Dialer{Revision: r, Logger: quiet}).Dial(t.Context(), as(user, urls[replica])))(t)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	for _, r := range []mcp.Revision{mcp.V20250326, mcp.V20250618, mcp.V20251125, mcp.V20260728} {
		ada, elsewhere, bob := dial(r, 0, "ada"), dial(r, 1, "ada"), dial(r, 0, "bob")
		for tool := range ada.Tools(t.Context()) {
			must.CheckThat(t, tool.OutputSchema == nil, "%s: tool %s has an output schema", r, tool.Name)
		}
		for tool, want := range map[string]string{"text": "text/plain", "structured": "text/plain",
			"image": "application/json", "fails": "text/plain"} {
			result := must.Get(ada.CallTool(t.Context(), "up__"+tool, nil))(t)
			uri, texts := "", ""
			for _, block := range result.Content {
				switch b := block.(type) {
				case *mcp.ResourceLink:
					uri = b.URI
				case *mcp.TextContent:
					texts += b.Text
				}
			}
			if uri == "" { // there are no links before 2025-06-18
				_, uri, _ = strings.Cut(texts, "The resource ")
				uri, _, _ = strings.Cut(uri, " ")
			}
			if len(texts) > 500 || result.IsError != (tool == "fails") ||
				want == "text/plain" && !strings.Contains(texts, "äöü") {
				t.Errorf("%s, %s: error %t, %q", r, tool, result.IsError, texts)
			}
			for _, c := range []*client.Client{ada, elsewhere} {
				read, err := c.ReadResource(t.Context(), uri)
				must.CheckThat(t, err == nil && len(read.Contents) == 1 && read.Contents[0].MimeType == want &&
					len(read.Contents[0].Text) >= 4000 && read.Contents[0].URI == uri,
					"%s, %s: %s: %+v, %v", r, tool, uri, read, err)
			}
			must.CheckIs(t, must.Err(bob.ReadResource(t.Context(), uri)), call.ErrResourceNotFound, r, tool)
		}
		got, err := client.CallTool[string](t.Context(), ada, "up__small", nil)
		must.CheckThat(t, got == "small" && err == nil, "%s: %q, %v", r, got, err)
	}
	for _, uri := range []string{"parley:result/up/x", "parley:result/other/x", "parley:result/up/"} {
		must.CheckIs(t, must.Err(dial(mcp.V20260728, 0, "ada").ReadResource(t.Context(), uri)),
			call.ErrResourceNotFound, uri)
	}
}

// If the server is itself a gateway, its links begin in the same way.
func TestLargeResultsOfAnotherGatewayAreRead(t *testing.T) {
	var config host.ServerConfig
	inner := large()
	for _, name := range []string{"inner", "outer"} {
		config = httpConfig(t, name, inner)
		config.MaxResult = map[string]int{"inner": 1000, "outer": 100_000}[name]
		inner = &server.Server{Name: name, Version: "1"}
		gatewaytest.Run(t, &host.Host{Servers: []host.ServerConfig{config}}, inner)
	}
	c := must.Get(client.Dial(t.Context(), httpConfig(t, "", inner).Target))(t)
	defer c.Close()
	result := must.Get(c.CallTool(t.Context(), "outer__inner__text", nil))(t)
	link, ok := result.Content[len(result.Content)-1].(*mcp.ResourceLink)
	if !ok {
		t.Fatalf("%+v", result.Content)
	}
	must.CheckEqual(t, must.Get(c.ReadResource(t.Context(), link.URI))(t).Contents[0].Text, longText, link.URI)
}

// runWithStore presents a server as s until the test ends.
func runWithStore(t *testing.T, config host.ServerConfig, s *server.Server) {
	gatewaytest.Run(t, &host.Host{Servers: []host.ServerConfig{config}}, s)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.Shutdown(ctx)
	})
}

// fullStore is a store without space for results.
type fullStore struct{ store.Store }

func (fullStore) Add(context.Context, string, string, time.Duration, int) error { return store.ErrFull }

// The beginning of a large result reaches the client if the rest cannot be stored.
func TestLargeResultsAreCutIfTheyCannotBeStored(t *testing.T) {
	config := httpConfig(t, "up", large())
	config.MaxResult = 200
	s := &server.Server{Name: "gateway", Version: "1", Store: fullStore{store.NewMemory()}}
	runWithStore(t, config, s)
	for _, r := range mcp.Revisions() {
		got, err := client.CallTool[string](t.Context(), mcptest.Dial(t, s, mcptest.WithRevision(r)), "up__text", nil)
		must.CheckThat(t, err == nil && strings.HasPrefix(got, "äöü ") &&
			strings.Contains(got, "The rest cannot be stored"), "%s: %q, %v", r, got, err)
	}
}

// repeating serves the tool t, which repeats a text, until the test ends.
func repeating(t *testing.T) host.ServerConfig {
	s := &server.Server{}
	type in struct {
		Text  string
		Count int
	}
	server.AddTool(s, mcp.Tool{Name: "t"}, func(_ context.Context, in in) (string, error) {
		return strings.Repeat(in.Text+"\n", in.Count), nil
	})
	up := httptest.NewServer(s)
	t.Cleanup(up.Close)
	return host.ServerConfig{Name: "up", Target: client.URL(up.URL)}
}

// repeat calls the tool of repeating, and returns an error unless the result is right.
func repeat(ctx context.Context, c *client.Client, text string, count int) error {
	got, err := client.CallTool[string](ctx, c, "up__t", map[string]any{"Text": text, "Count": count})
	if want := strings.Repeat(text+"\n", count); err == nil && got != want {
		err = fmt.Errorf("the result of %s has %d bytes and begins with %.50q, want %d bytes", text, len(got), got,
			len(want))
	}
	return err
}

// After a result was sent, its memory is reused for other results. Under the race detector, it is cleared
// first.
func TestResultsOfConcurrentCallsDoNotMix(t *testing.T) {
	s := gatewayTo(t, repeating(t))
	endpoint := httptest.NewServer(s)
	defer endpoint.Close()
	var callers sync.WaitGroup
	for _, r := range mcp.Revisions() {
		d := client.Dialer{Revision: r}
		for caller := range 4 {
			c := must.Get(d.Dial(t.Context(), client.URL(endpoint.URL)))(t)
			defer c.Close()
			callers.Go(func() {
				for i, count := range []int{1, 20_000, 3, 200, 8_000, 1, 20_000} {
					must.Check(t, repeat(t.Context(), c, fmt.Sprintf("%s-%d-%d", r, caller, i), count))
				}
			})
		}
	}
	callers.Wait()
}

// A hook may keep the result that it receives.
func TestResultsThatHooksKeepDoNotChange(t *testing.T) {
	var kept, copies []json.RawMessage
	h := &host.Host{Servers: []host.ServerConfig{repeating(t)},
		OnResult: func(_ context.Context, _ *host.Request, result json.RawMessage) (json.RawMessage, error) {
			kept, copies = append(kept, result), append(copies, bytes.Clone(result))
			return result, nil
		},
	}
	s := &server.Server{}
	gatewaytest.Run(t, h, s)
	endpoint := httptest.NewServer(s)
	defer endpoint.Close()
	c := must.Get(client.Dial(t.Context(), client.URL(endpoint.URL)))(t)
	defer c.Close()
	for i := range 20 {
		must.Do(t, repeat(t.Context(), c, fmt.Sprint(i), 1000))
	}
	if !slices.EqualFunc(kept, copies, func(a, b json.RawMessage) bool {
		return bytes.Equal(a, b)
	}) || len(kept) != 20 {
		t.Error("the results that the hook has received have changed")
	}
}

// Fields that no revision defines, explicit false and empty values, numbers in another notation, and escapes.
const (
	odd           = `"x-unknown":[1.50,{"b":null,"a":"caf\u00e9"}],"title":""`
	oddMeta       = `"_meta":{"example.com/k":[ 1e2]}`
	oddAnnotation = `"annotations":{"priority":0.50,"x-unknown":false,"audience":["user"]}`

	oddTool = odd +
		`,"inputSchema":{"type":"object","x-order":[2,1]},"annotations":{"readOnlyHint":false,` +
		`"destructiveHint":false,"idempotentHint":false,` +
		`"title":"","x-unknown":{"z":false}},"outputSchema":{"type":"object"},` + oddMeta + `}`
	oddPrompt   = odd + `,"arguments":[{"name":"a","required":false,"x-unknown":0}],` + oddMeta + `}`
	oddResource = `"name":"r",` + odd + `,"size":3,` + oddAnnotation + `,` + oddMeta + `}`
)

func oddUpstream() upstream {
	return upstream{
		mcp.MethodListTools:     `{"tools":[{"name":"t",` + oddTool + `]}`,
		mcp.MethodListPrompts:   `{"prompts":[{"name":"p",` + oddPrompt + `]}`,
		mcp.MethodListResources: `{"resources":[{"uri":"lib://a",` + oddResource + `]}`,
		mcp.MethodListResourceTemplates: `{"resourceTemplates":[{"uriTemplate":"lib://b/{x}",` +
			strings.Replace(oddResource, `"size":3,`, "", 1) + `]}`,
	}
}

// first returns the source of the only element of a list.
func first[E any](t *testing.T, list iter.Seq2[*E, error], source func(*E) json.RawMessage) string {
	t.Helper()
	var all []string
	for e, err := range list {
		must.Do(t, err)
		all = append(all, string(source(e)))
	}
	must.Equal(t, len(all), 1, all)
	return all[0]
}

// White space between tokens is not kept.
func TestDefinitionsAreForwardedUnchanged(t *testing.T) {
	compact := func(text string) string { return strings.ReplaceAll(text, `[ 1e2]`, `[1e2]`) }
	for _, revision := range []mcp.Revision{mcp.V20250618, mcp.V20251125, mcp.V20260728} {
		c := mcptest.Dial(t, gatewayTo(t, oddUpstream().start(t, "up")), mcptest.WithRevision(revision))
		keep := client.WithSource()
		for got, want := range map[string]string{
			first(t, c.Tools(t.Context(), keep),
				func(t *mcp.Tool) json.RawMessage { return t.Source }): `{"name":"up__t",` + oddTool,
			first(t, c.Prompts(t.Context(), keep),
				func(p *mcp.Prompt) json.RawMessage { return p.Source }): `{"name":"up__p",` + oddPrompt,
			first(t, c.Resources(t.Context(), keep),
				func(r *mcp.Resource) json.RawMessage { return r.Source }): `{"uri":"lib://a",` + oddResource,
			first(t, c.ResourceTemplates(t.Context(), keep),
				func(r *mcp.ResourceTemplate) json.RawMessage { return r.Source }): `{"uriTemplate":"lib://b/{x}",` +
				strings.Replace(oddResource, `"size":3,`, "", 1),
		} {
			must.CheckEqual(t, got, compact(want), revision)
		}
	}
}

// The parts that an older revision does not define are removed, and nothing else.
func TestForwardedDefinitionsAreDowngraded(t *testing.T) {
	c := mcptest.Dial(t, gatewayTo(t, oddUpstream().start(t, "up")), mcptest.WithRevision(mcp.V20241105))
	got := first(t, c.Tools(t.Context(), client.WithSource()), func(t *mcp.Tool) json.RawMessage { return t.Source })
	must.CheckEqual(t, got, `{"name":"up__t",`+odd+`,"inputSchema":{"type":"object","x-order":[2,1]}}`)
}

func TestResultsAreForwardedUnchanged(t *testing.T) {
	const (
		link    = `{"type":"resource_link","uri":"lib://c","name":"c",` + odd + `,` + oddAnnotation + `}`
		text    = `{"type":"text","text":"caf\u00e9\n",` + oddAnnotation + `,` + oddMeta + `,"x-unknown":1}`
		content = `"content":[` + text + `,` + link +
			`,{"type":"resource","resource":{"uri":"lib://d","mimeType":"","text":"d","x-unknown":0},"x":1}]`
		called = content + `,"structuredContent":{"n":1.0},"isError":false,"x-unknown":{"b":1,"a":2},` + oddMeta
		got    = `"description":"","messages":[{"role":"user","content":` + text + `,"x-unknown":0},{"content":` +
			link + `,"role":"assistant"}],"x":0`
		read = `"contents":[{"text":"t","uri":"lib://a","x-unknown":0},{"uri":"lib://a/b","blob":"AAA="}],"x":0`
	)
	up := oddUpstream()
	up[mcp.MethodCallTool] = `{` + called + `}`
	up[mcp.MethodGetPrompt] = `{` + got + `}`
	up[mcp.MethodReadResource] = `{` + read + `}`
	members := func(source json.RawMessage) string { // without the gateway's own fields
		for _, own := range []string{`"resultType":"complete",`,
			`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"gateway","version":"1"}},`,
			`"ttlMs":0,"cacheScope":"private",`} {
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
		} else if revision.Modern() { // _meta also contains the gateway's name, and comes first
			meta, _ := jsonrpc.Get(result.Source, "_meta")
			kept, _ := jsonrpc.Get(meta, "example.com/k")
			check("_meta", kept, nil, `[ 1e2]`)
			rest := strings.Replace(string(result.Source), `"_meta":`+string(meta)+`,`, "", 1)
			check("tools/call", json.RawMessage(rest), nil, `{`+strings.TrimSuffix(called, `,`+oddMeta)+`}`)
		} else {
			check("tools/call", result.Source, nil, `{`+called+`}`)
		}
		prompt, err := c.GetPrompt(t.Context(), "up__p", nil, client.WithSource())
		must.Do(t, err)
		check("prompts/get", prompt.Source, err, `{`+got+`}`)
		contents := must.Get(c.ReadResource(t.Context(), "lib://a", client.WithSource()))(t)
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
		must.CheckThat(t, err == nil && len(got.Values) == 2 && got.Total != nil && *got.Total == 4711 && got.HasMore,
			"%s: %+v, %v", name, got, err)
	}
}

func completeParams(ref mcp.CompleteReference, argument string) mcp.CompleteParams {
	return mcp.CompleteParams{Ref: ref, Argument: mcp.CompleteArgument{Name: argument}}
}

func TestErrorsForTheCallerAreForwarded(t *testing.T) {
	const required = `{"code":-32042,"message":"open a page","data":{"elicitations":[{"mode":"url",` +
		`"url":"https://example.com/","message":"please","elicitationId":"7","x":0}],"x":1}}`
	up := oddUpstream()
	for text, revisions := range map[string][]mcp.Revision{
		`{"code":1234,"message":"of the server","data":{"k":1.50}}`: mcp.Revisions(),
		`{"code":-32602,"message":"which?","data":{"k":[1]}}`:       mcp.Revisions(),
		required: {mcp.V20251125},
	} {
		up[mcp.MethodCallTool], up[mcp.MethodGetPrompt], up[mcp.MethodReadResource] = "error "+text, "error "+text,
			"error "+text
		for _, revision := range revisions {
			c := mcptest.Dial(t, gatewayTo(t, up.start(t, "up")), mcptest.WithRevision(revision))
			_, called := c.CallTool(t.Context(), "up__t", nil)
			_, prompted := c.GetPrompt(t.Context(), "up__p", nil)
			_, read := c.ReadResource(t.Context(), "lib://a")
			for _, err := range []error{called, prompted, read} {
				var reported *jsonrpc.Error
				want := strings.Replace(text, `"please"`, `"The server \"up\" asks:\n\n> please"`, 1)
				must.CheckThat(t, errors.As(err, &reported) &&
					string(jsonrpc.AppendError(nil, jsonrpc.ID{}, reported, false)) == string(jsonrpc.AppendError(nil,
						jsonrpc.ID{}, errorOf(want), false)), "%s: %v, want %s", revision, err, want)
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

// A client of 2026-07-28 is asked to let its user open the URL, and the call is repeated.
func TestRequiredURLsAreForwardedToModernClients(t *testing.T) {
	up := oddUpstream()
	up[mcp.MethodCallTool] = `error {"code":-32042,"message":"open","data":{"elicitations":[{"mode":"url",` +
		`"url":"https://example.com/","message":"please","elicitationId":"7"}]}}`
	var asked []string
	c := mcptest.Dial(t, gatewayTo(t, up.start(t, "up")), func(d *client.Dialer) {
		d.ElicitURL = func(_ context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			asked = append(asked, params.URL+" "+params.Message)
			return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
		}
	})
	result, err := c.CallTool(t.Context(), "up__t", nil)
	must.CheckThat(t, len(asked) != 0 && asked[0] == "https://example.com/ "+asksOf("up")+"please",
		"the user is asked %q; the result is %+v, %v", asked, result, err)
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
		must.Get(c.CallTool(t.Context(), "up__t", nil, client.WithMeta(meta)))(t)
		must.CheckEqual(t, <-got, `{"a":1.50} `+parent)
	})
}

// If a server needs a login, the client receives an error with the URL, which even a client without event
// streams can open.
func TestClientsOfJSONReceiveTheURLOfALogin(t *testing.T) {
	up := &server.Server{}
	server.AddTool(up, mcp.Tool{Name: "t"}, func(context.Context, none) (string, error) { return "", nil })
	s := &server.Server{Name: "gateway", Auth: usersByToken()}
	gatewaytest.Run(t, &host.Host{Servers: []host.ServerConfig{{
		Name: "up", Target: client.URL(wiretest.Serve(t, up)), CallerAuth: host.NewCallerAuth(
			func(principal.Principal) (loggedOut, error) { return loggedOut{}, nil }),
	}}}, s)
	url, header := wiretest.Serve(t, s), []string{"Accept", "application/json", "Authorization", "Bearer ada"}
	begun := wiretest.Do(t, "POST", url, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":`+
		`"2025-11-25","capabilities":{"elicitation":{"url":{}}},"clientInfo":{"name":"c","version":"1"}}}`, header...)
	header = append(header, "Mcp-Session-Id", begun.Header.Get("Mcp-Session-Id"))
	wiretest.Text(t, begun)
	must.Equal(t, wiretest.Do(t, "POST", url, wiretest.Initialized, header...).StatusCode, http.StatusAccepted)
	got := wiretest.Text(t, wiretest.Do(t, "POST", url,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"up__t"}}`, header...))
	must.Contains(t, got, `"code":-32042`)
	must.Contains(t, got, "https://example.com/login")
}

// loggedOut is the authorizer of a user who has to log in.
type loggedOut struct{ bearerToken }

func (loggedOut) Authorize(*http.Request, string) error {
	return &call.URLRequiredError{URLs: []call.RequiredURL{{URL: "https://example.com/login", Message: "Log in"}}}
}
