package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// A watch corrects a stale Discovery before it begins.
func TestWatchCorrectsAStaleDiscovery(t *testing.T) {
	now := legacyMock(status(400, ""))
	now.answers["initialize"] = []reply{ok(strings.Replace(initialized, `{"tools":{}}`,
		`{"tools":{"listChanged":true}}`, 1))}
	c := dialStored(t, modernMock(), now, quiet())
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for change, err := range c.Watch(ctx, client.WatchFilter{Tools: true}) {
		must.Do(t, err)
		must.CheckEqual(t, change, (client.Change{Kind: client.ToolsChanged, Resync: true}))
		break
	}
	must.CheckEqual(t, c.Server().Info.Name, "old")
}

// stored returns the Discovery of a client, after a round trip through JSON.
func stored(t *testing.T, c *client.Client) *client.Discovery {
	t.Helper()
	raw := must.Get(json.Marshal(c.Discovery()))(t)
	d := new(client.Discovery)
	must.Do(t, json.Unmarshal(raw, d))
	return d
}

// dialStored connects to the server before, and returns a client that begins with its
// Discovery and finds the server now at the same URL.
func dialStored(t *testing.T, before, now *mock, d client.Dialer) *client.Client {
	t.Helper()
	var mu sync.Mutex
	current := before
	s := httptest.NewServer(handlerFunc(func() *mock {
		mu.Lock()
		defer mu.Unlock()
		return current
	}))
	t.Cleanup(s.Close)
	first := must.Get(d.Dial(t.Context(), client.URL(s.URL)))(t)
	d.Discovery = stored(t, first)
	first.Close()
	mu.Lock()
	current = now
	mu.Unlock()
	c := must.Get(d.Dial(t.Context(), client.URL(s.URL)))(t)
	t.Cleanup(func() { c.Close() })
	must.CheckEqual(t, now.methods(), "")
	if c.Revision() != first.Revision() || c.Server().Info.Name != first.Server().Info.Name {
		t.Errorf("the client has revision %s and details %+v", c.Revision(), c.Server())
	}
	return c
}

// newMock returns a server with answers to pairs of a method and a reply, and to tools and ping.
func newMock(pairs ...any) *mock {
	m := &mock{answers: map[string][]reply{"tools/call": {ok(called)}, "tools/list": {ok(listed)},
		"ping": {ok(`"result":{}`)}}, otherwise: status(404, "")}
	for i := 0; i < len(pairs); i += 2 {
		m.answers[pairs[i].(string)] = []reply{pairs[i+1].(reply)}
	}
	return m
}

func modernMock() *mock { return newMock("server/discover", ok(discovered)) }

// legacyMock returns a server with sessions, which answers requests of 2026-07-28 with rejection.
func legacyMock(rejection reply) *mock {
	m := newMock("initialize", ok(initialized), "server/discover", rejection)
	for _, method := range []string{"tools/call", "tools/list"} {
		m.answers[method] = []reply{rejection, m.answers[method][0]}
	}
	return m
}

func TestDialWithDiscoverySendsNothing(t *testing.T) {
	sse := newMock("initialize", ok(strings.ReplaceAll(initialized, "2025-06-18", "2024-11-05")))
	sse.streams = make(chan string, 10)
	sseAgain := newMock("initialize", ok(strings.ReplaceAll(initialized, "2025-06-18", "2024-11-05")))
	sseAgain.streams = make(chan string, 10)
	for name, c := range map[string]struct {
		before, now *mock
		received    string
	}{
		"2026-07-28": {modernMock(), modernMock(), "tools/call tools/list"},
		"2025-06-18": {newMock("initialize", ok(initialized)), newMock("initialize", ok(initialized)),
			handshaken + " tools/call tools/list"},
		"2024-11-05": {sse, sseAgain, "GET " + handshaken + " tools/call tools/list"},
	} {
		t.Run(name, func(t *testing.T) {
			got := dialStored(t, c.before, c.now, quiet())
			wantCalled(t, got, "a")
			must.CheckEqual(t, names(t, got), "a")
			must.CheckEqual(t, c.now.methods(), c.received)
		})
	}
}

// Rule U5: an answer that only a server of the other era sends corrects the Discovery. The caller
// does not notice: the rejected request is sent again.
func TestStaleDiscoveryIsCorrected(t *testing.T) {
	const found = probed + " " + handshaken
	for name, c := range map[string]struct {
		now      *mock
		received string // what the server receives for one call
	}{
		"400 and text": {legacyMock(status(400, "no session")), "tools/call " + found + " tools/call"},
		"404":          {legacyMock(status(404, "")), "tools/call " + found + " tools/call"},
		"405":          {legacyMock(status(405, "")), "tools/call " + found + " tools/call"},
		"-32601":       {legacyMock(ok(methodNotFound)), "tools/call " + found + " tools/call"},
		"-32000 with 400": {legacyMock(failing(400, `"error":{"code":-32000,"message":"no session"}`)),
			"tools/call " + found + " tools/call"},
		"-32022 with older": {legacyMock(failing(400, unsupported(`"2025-06-18"`))),
			"tools/call " + found + " tools/call"},
		"-32022 with 200": {legacyMock(ok(unsupported(`"2025-06-18"`))), "tools/call " + found + " tools/call"},
		"-32601 with 404": {legacyMock(failing(404, methodNotFound)), "tools/call " + found + " tools/call"},
		"list, rejected":  {legacyMock(status(400, "")), "tools/list " + found + " tools/list"},
		"list, other error": {legacyMock(ok(`"error":{"code":-32603,"message":"unexpected"}`)),
			"tools/list " + found + " tools/list"},
		"list, not MCP": {legacyMock(reply{200, "text/html", "<html>", nil}),
			"tools/list " + found + " tools/list"},
	} {
		t.Run(name, func(t *testing.T) {
			got := dialStored(t, modernMock(), c.now, quiet())
			if strings.HasPrefix(c.received, "tools/list") {
				must.CheckEqual(t, names(t, got), "a")
			} else {
				wantCalled(t, got, "a")
			}
			must.CheckEqual(t, c.now.methods(), c.received)
			if got.Revision() != mcp.V20250618 || got.Server().Info.Name != "old" {
				t.Errorf("the client has revision %s and details %+v", got.Revision(), got.Server())
			}
		})
	}
}

// The client does not repeat a call that may have run.
func TestStaleDiscoveryDoesNotRepeatACallThatMayHaveRun(t *testing.T) {
	now := legacyMock(ok(`"error":{"code":-32603,"message":"failed halfway"}`))
	c := dialStored(t, modernMock(), now, quiet())
	_, err := c.CallTool(t.Context(), "a", nil)
	var reported *jsonrpc.Error
	must.CheckThat(t, errors.As(err, &reported) && reported.Code == -32603, "got %v", err)
	wantCalled(t, c, "a")
	must.CheckEqual(t, now.methods(), "tools/call "+probed+" "+handshaken+" tools/call")
}

// An error of the remembered era does not cause a new search.
func TestErrorsOfTheRememberedEraAreReported(t *testing.T) {
	now := modernMock()
	now.answers["tools/call"] = []reply{ok(`"error":{"code":-32602,"message":"unknown tool"}`)}
	c := dialStored(t, modernMock(), now, quiet())
	for range 2 {
		var reported *jsonrpc.Error
		_, err := c.CallTool(t.Context(), "b", nil)
		must.CheckThat(t, errors.As(err, &reported) && reported.Code == -32602, "got %v", err)
	}
	must.CheckEqual(t, now.methods(), "tools/call "+probed+" tools/call")
}

// Rule U5: an error that is independent of the era does not cause a fallback.
func TestErrorsOfAnyEraDoNotCauseFallback(t *testing.T) {
	for name, answer := range map[string]reply{
		"401": status(401, ""), "403": status(403, ""), "429": status(429, ""), "500": status(500, ""),
		"-32020": failing(400, `"error":{"code":-32020,"message":"headers"}`),
		"-32021": failing(400, `"error":{"code":-32021,"message":"capability"}`),
	} {
		t.Run(name, func(t *testing.T) {
			now := legacyMock(answer)
			c := dialStored(t, modernMock(), now, quiet())
			_, err := c.GetPrompt(t.Context(), "a", nil)
			must.CheckThat(t, err != nil, "GetPrompt succeeded, want an error")
			now.mu.Lock()
			now.received = nil
			now.mu.Unlock()
			_, err = c.CallTool(t.Context(), "a", nil)
			must.CheckThat(t, err != nil || name == "-32020", "CallTool succeeded, want an error")
			received := now.methods()
			must.CheckThat(t, !strings.Contains(received, "initialize"), "the server received %s", received)
		})
	}
}

func TestUpgradedServerIsDiscovered(t *testing.T) {
	for name, rejection := range map[string]reply{"-32601": failing(404, methodNotFound),
		"-32022": failing(400, unsupported(`"2026-07-28"`))} {
		now := newMock("server/discover", ok(discovered), "initialize", rejection)
		c := dialStored(t, newMock("initialize", ok(initialized)), now, quiet())
		if text, err := client.CallTool[string](t.Context(), c, "a", nil); err != nil || text != "called" ||
			c.Revision() != mcp.V20260728 {
			t.Errorf("%s: %q, %v in %s", name, text, err, c.Revision())
		}
		must.CheckEqual(t, now.methods(), "initialize "+probed+" tools/call", name)
	}
}

// Concurrent requests search for the revision once.
func TestConcurrentCallsCorrectAStaleDiscoveryOnce(t *testing.T) {
	now := legacyMock(status(400, ""))
	rejection := now.answers["tools/call"][0]
	now.answers["tools/call"] = []reply{rejection, rejection, rejection, rejection, rejection, rejection, rejection,
		rejection, ok(called)}
	c := dialStored(t, modernMock(), now, quiet())
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			// The mock also rejects some calls in the new session.
			_, _ = c.CallTool(t.Context(), "a", nil)
		})
	}
	calls.Wait()
	if received := now.methods(); strings.Count(received, "initialize ") != 1 || strings.Count(received, probed) != 1 {
		t.Errorf("the server received %s", received)
	}
}

func TestDiscoveryOnStreamsConnectsWithTheFirstRequest(t *testing.T) {
	for name, s := range map[string]*script{"modern": modernServer(), "legacy": legacyServer()} {
		for otherName, other := range map[string]*script{"the same": s, "modern": modernServer(),
			"legacy": legacyServer()} {
			synctest.Test(t, func(t *testing.T) {
				to, _ := target(s)
				d := quiet()
				first := must.Get(d.Dial(t.Context(), to))(t)
				d.Discovery = stored(t, first)
				first.Close()
				to, rec := target(other)
				c := must.Get(d.Dial(t.Context(), to))(t)
				received := rec.methods()
				must.CheckThat(t, received == "" && c.Revision() == first.Revision(), "Dial sent %s", received)
				begin := time.Now()
				wantCalled(t, c, "a")
				took := time.Since(begin)
				must.CheckThat(t, took <= 0, "%s, then %s: the call took %v", name, otherName, took)
				c.Close()
				rec.wants(t, "tools/call", 1)
			})
		}
	}
}

// The search for the revision of a server that does not answer costs time only once.
func TestDiscoveryOfASessionAvoidsTheProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := legacyServer()
		silent.Answers["server/discover"] = []string{""}
		to, _ := target(silent)
		d := quiet()
		begin := time.Now()
		first, err := d.Dial(t.Context(), to)
		must.That(t, err == nil && time.Since(begin) >= time.Second, "%v after %v", err, time.Since(begin))
		d.Discovery = stored(t, first)
		first.Close()
		c := must.Get(d.Dial(t.Context(), to))(t)
		begin = time.Now()
		if err := c.Ping(t.Context()); err != nil || time.Since(begin) > 0 {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		c.Close()
		// After a day, the client searches again.
		time.Sleep(25 * time.Hour)
		c, err = d.Dial(t.Context(), to)
		must.Do(t, err)
		defer c.Close()
		begin = time.Now()
		if err := c.Ping(t.Context()); err != nil || time.Since(begin) < time.Second {
			t.Errorf("a day later: %v after %v", err, time.Since(begin))
		}
	})
}

func TestDiscoveryOfAnotherServerIsIgnored(t *testing.T) {
	for name, change := range map[string]func(*client.Dialer){
		"another target":   func(d *client.Dialer) { d.Discovery.Target = "https://example.com" },
		"another revision": func(d *client.Dialer) { d.Revision = mcp.V20251125 },
		"unknown revision": func(d *client.Dialer) { d.Discovery.Revision = "2099-01-01" },
	} {
		now := newMock("server/discover", ok(strings.Replace(discovered, `{"tools":{}}`, `{"tools":{},"prompts":{}}`,
			1)), "initialize", ok(strings.ReplaceAll(initialized, "2025-06-18", "2025-11-25")))
		s := httptest.NewServer(now)
		d := quiet()
		d.Discovery = &client.Discovery{Target: s.URL, Revision: mcp.V20260728}
		change(&d)
		c, err := d.Dial(t.Context(), client.URL(s.URL))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else {
			c.Close()
		}
		must.CheckThat(t, now.methods() != "", "%s: Dial sent nothing", name)
		s.Close()
	}
}

// handlerFunc serves requests with the mock that it returns.
type handlerFunc func() *mock

func (f handlerFunc) ServeHTTP(w http.ResponseWriter, r *http.Request) { f().ServeHTTP(w, r) }
