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
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// memory is what a client remembers, stored and loaded.
func memory(t *testing.T, c *client.Client) *client.Discovery {
	t.Helper()
	raw, err := json.Marshal(c.Discovery())
	if err != nil {
		t.Fatal(err)
	}
	d := new(client.Discovery)
	if err := json.Unmarshal(raw, d); err != nil {
		t.Fatal(err)
	}
	return d
}

// remember dials a server once, as it is before, and then again with what was learned, as
// it is now. The mock hears of the second time only.
func remember(t *testing.T, before, now *mock, d client.Dialer) *client.Client {
	t.Helper()
	var mu sync.Mutex
	current := before
	s := httptest.NewServer(handlerFunc(func() *mock {
		mu.Lock()
		defer mu.Unlock()
		return current
	}))
	t.Cleanup(s.Close)
	first, err := d.Dial(t.Context(), client.URL(s.URL))
	if err != nil {
		t.Fatal(err)
	}
	d.Discovery = memory(t, first)
	first.Close()
	mu.Lock()
	current = now
	mu.Unlock()
	c, err := d.Dial(t.Context(), client.URL(s.URL))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if heard := now.methods(); heard != "" {
		t.Errorf("Dial sent %s", heard)
	}
	if c.Revision() != first.Revision() || c.Server().Info.Name != first.Server().Info.Name {
		t.Errorf("remembered %s %+v", c.Revision(), c.Server())
	}
	return c
}

func answering(pairs ...any) *mock {
	m := &mock{answers: map[string][]reply{"tools/call": {ok(called)}, "tools/list": {ok(listed)}, "ping": {ok(`"result":{}`)}}, otherwise: status(404, "")}
	for i := 0; i < len(pairs); i += 2 {
		m.answers[pairs[i].(string)] = []reply{pairs[i+1].(reply)}
	}
	return m
}

func newMock() *mock { return answering("server/discover", ok(discovered)) }

// oldMock refuses what does not belong to its era, in a way of its own.
func oldMock(refusal reply) *mock {
	m := answering("initialize", ok(initialized), "server/discover", refusal)
	for _, method := range []string{"tools/call", "tools/list"} {
		m.answers[method] = []reply{refusal, m.answers[method][0]}
	}
	return m
}

func TestDialWithAMemorySendsNothing(t *testing.T) {
	pair := answering("initialize", ok(strings.ReplaceAll(initialized, "2025-06-18", "2024-11-05")))
	pair.streams = make(chan string, 10)
	pairAgain := answering("initialize", ok(strings.ReplaceAll(initialized, "2025-06-18", "2024-11-05")))
	pairAgain.streams = make(chan string, 10)
	for name, c := range map[string]struct {
		before, now *mock
		heard       string
	}{
		"2026-07-28": {newMock(), newMock(), "tools/call tools/list"},
		"2025-06-18": {answering("initialize", ok(initialized)), answering("initialize", ok(initialized)), shookHands + " tools/call tools/list"},
		"2024-11-05": {pair, pairAgain, "GET " + shookHands + " tools/call tools/list"},
	} {
		t.Run(name, func(t *testing.T) {
			got := remember(t, c.before, c.now, quiet())
			if text, err := client.CallTool[string](t.Context(), got, "a", nil); err != nil || text != "called" {
				t.Errorf("%q, %v", text, err)
			}
			if all := names(t, got); all != "a" {
				t.Errorf("tools %s", all)
			}
			if heard := c.now.methods(); heard != c.heard {
				t.Errorf("the server heard %s, not %s", heard, c.heard)
			}
		})
	}
}

// U5: a memory is corrected by what only a server of another era answers, and the caller
// does not notice. What was refused has not run.
func TestAWrongMemoryHealsItself(t *testing.T) {
	const found = probed + " " + shookHands
	for name, c := range map[string]struct {
		now   *mock
		heard string // for a call
	}{
		"400 and text":          {oldMock(status(400, "no session")), "tools/call " + found + " tools/call"},
		"404":                   {oldMock(status(404, "")), "tools/call " + found + " tools/call"},
		"405":                   {oldMock(status(405, "")), "tools/call " + found + " tools/call"},
		"-32601":                {oldMock(ok(methodNotFound)), "tools/call " + found + " tools/call"},
		"-32000 with 400":       {oldMock(failing(400, `"error":{"code":-32000,"message":"no session"}`)), "tools/call " + found + " tools/call"},
		"-32022 with older":     {oldMock(failing(400, refusal(`"2025-06-18"`))), "tools/call " + found + " tools/call"},
		"-32022 with 200":       {oldMock(ok(refusal(`"2025-06-18"`))), "tools/call " + found + " tools/call"},
		"-32601 with 404":       {oldMock(failing(404, methodNotFound)), "tools/call " + found + " tools/call"},
		"a list, refused":       {oldMock(status(400, "")), "tools/list " + found + " tools/list"},
		"a list, odd error":     {oldMock(ok(`"error":{"code":-32603,"message":"odd"}`)), "tools/list " + found + " tools/list"},
		"a list, no MCP at all": {oldMock(reply{200, "text/html", "<html>", nil}), "tools/list " + found + " tools/list"},
	} {
		t.Run(name, func(t *testing.T) {
			got := remember(t, newMock(), c.now, quiet())
			if strings.HasPrefix(c.heard, "tools/list") {
				if all := names(t, got); all != "a" {
					t.Errorf("tools %s", all)
				}
			} else if text, err := client.CallTool[string](t.Context(), got, "a", nil); err != nil || text != "called" {
				t.Errorf("%q, %v", text, err)
			}
			if heard := c.now.methods(); heard != c.heard {
				t.Errorf("the server heard %s, not %s", heard, c.heard)
			}
			if got.Revision() != mcp.V20250618 || got.Server().Info.Name != "old" {
				t.Errorf("it is taken for %s %+v", got.Revision(), got.Server())
			}
		})
	}
}

// I3: a call that may have run is not sent again, though the memory was wrong.
func TestAWrongMemoryRepeatsNoCallThatMayHaveRun(t *testing.T) {
	now := oldMock(ok(`"error":{"code":-32603,"message":"it broke half-way"}`))
	c := remember(t, newMock(), now, quiet())
	_, err := c.CallTool(t.Context(), "a", nil)
	var reported *jsonrpc.Error
	if !errors.As(err, &reported) || reported.Code != -32603 {
		t.Errorf("got %v", err)
	}
	if text, err := client.CallTool[string](t.Context(), c, "a", nil); err != nil || text != "called" {
		t.Errorf("the next call: %q, %v", text, err)
	}
	if heard := now.methods(); heard != "tools/call "+probed+" "+shookHands+" tools/call" {
		t.Errorf("the server heard %s", heard)
	}
}

// A server that is still what it was may report errors like any other.
func TestAnErrorDoesNotMakeARightMemoryWrong(t *testing.T) {
	now := newMock()
	now.answers["tools/call"] = []reply{ok(`"error":{"code":-32602,"message":"unknown tool"}`)}
	c := remember(t, newMock(), now, quiet())
	for range 2 {
		var reported *jsonrpc.Error
		if _, err := c.CallTool(t.Context(), "b", nil); !errors.As(err, &reported) || reported.Code != -32602 {
			t.Errorf("got %v", err)
		}
	}
	if heard := now.methods(); heard != "tools/call "+probed+" tools/call" {
		t.Errorf("the server heard %s", heard)
	}
}

// U5: what says nothing about the era leads to no search, and so to no older revision.
func TestAMemoryIsNotDoubtedForNothing(t *testing.T) {
	for name, answer := range map[string]reply{
		"401": status(401, ""), "403": status(403, ""), "429": status(429, ""), "500": status(500, ""),
		"-32020": failing(400, `"error":{"code":-32020,"message":"headers"}`), "-32021": failing(400, `"error":{"code":-32021,"message":"capability"}`),
	} {
		t.Run(name, func(t *testing.T) {
			now := oldMock(answer)
			c := remember(t, newMock(), now, quiet())
			if _, err := c.GetPrompt(t.Context(), "a", nil); err == nil {
				t.Error("there is a prompt")
			}
			now.mu.Lock()
			now.heard = nil
			now.mu.Unlock()
			if _, err := c.CallTool(t.Context(), "a", nil); err == nil && name != "-32020" {
				t.Error("the call was answered")
			}
			if heard := now.methods(); strings.Contains(heard, "initialize") {
				t.Errorf("the server heard %s", heard)
			}
		})
	}
}

func TestAServerThatHasBecomeModernIsFound(t *testing.T) {
	for name, refusal := range map[string]reply{"-32601": failing(404, methodNotFound), "-32022": failing(400, refusal(`"2026-07-28"`))} {
		now := answering("server/discover", ok(discovered), "initialize", refusal)
		c := remember(t, answering("initialize", ok(initialized)), now, quiet())
		if text, err := client.CallTool[string](t.Context(), c, "a", nil); err != nil || text != "called" || c.Revision() != mcp.V20260728 {
			t.Errorf("%s: %q, %v in %s", name, text, err, c.Revision())
		}
		if heard := now.methods(); heard != "initialize "+probed+" tools/call" {
			t.Errorf("%s: the server heard %s", name, heard)
		}
	}
}

// Many requests at once find out together.
func TestAWrongMemoryHealsOnceForAll(t *testing.T) {
	now := oldMock(status(400, ""))
	refuse := now.answers["tools/call"][0]
	now.answers["tools/call"] = []reply{refuse, refuse, refuse, refuse, refuse, refuse, refuse, refuse, ok(called)}
	c := remember(t, newMock(), now, quiet())
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			// Some are refused by the mock in the new session too, which is none of the client's doing.
			_, _ = c.CallTool(t.Context(), "a", nil)
		})
	}
	calls.Wait()
	if heard := now.methods(); strings.Count(heard, "initialize ") != 1 || strings.Count(heard, probed) != 1 {
		t.Errorf("the server heard %s", heard)
	}
}

func TestAMemoryOverAStreamConnectsWithTheFirstRequest(t *testing.T) {
	for name, s := range map[string]*script{"modern": modernServer(), "legacy": legacyServer()} {
		for otherName, other := range map[string]*script{"the same": s, "modern": modernServer(), "legacy": legacyServer()} {
			synctest.Test(t, func(t *testing.T) {
				to, _ := target(s)
				d := quiet()
				first, err := d.Dial(t.Context(), to)
				if err != nil {
					t.Fatal(err)
				}
				d.Discovery = memory(t, first)
				first.Close()
				to, played := target(other)
				c, err := d.Dial(t.Context(), to)
				if err != nil {
					t.Fatal(err)
				}
				if heard := played.methods(); heard != "" || c.Revision() != first.Revision() {
					t.Errorf("Dial sent %s", heard)
				}
				begin := time.Now()
				if text, err := client.CallTool[string](t.Context(), c, "a", nil); err != nil || text != "called" {
					t.Errorf("%s, then %s: %q, %v", name, otherName, text, err)
				}
				if took := time.Since(begin); took > 0 {
					t.Errorf("%s, then %s: it took %v", name, otherName, took)
				}
				c.Close()
				if heard := played.methods(); strings.Count(heard, "tools/call") != 1 {
					t.Errorf("the server heard %s", heard)
				}
			})
		}
	}
}

// A silent server costs its search once.
func TestAMemoryOfASessionSparesTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := legacyServer()
		silent.Answers["server/discover"] = []string{""}
		to, _ := target(silent)
		d := quiet()
		begin := time.Now()
		first, err := d.Dial(t.Context(), to)
		if err != nil || time.Since(begin) < time.Second {
			t.Fatalf("%v after %v", err, time.Since(begin))
		}
		d.Discovery = memory(t, first)
		first.Close()
		c, err := d.Dial(t.Context(), to)
		if err != nil {
			t.Fatal(err)
		}
		begin = time.Now()
		if err := c.Ping(t.Context()); err != nil || time.Since(begin) > 0 {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		c.Close()
		// It is asked again what it speaks when a day has passed.
		time.Sleep(25 * time.Hour)
		if c, err = d.Dial(t.Context(), to); err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		begin = time.Now()
		if err := c.Ping(t.Context()); err != nil || time.Since(begin) < time.Second {
			t.Errorf("a day later: %v after %v", err, time.Since(begin))
		}
	})
}

func TestAMemoryOfSomethingElseIsNotUsed(t *testing.T) {
	for name, change := range map[string]func(*client.Dialer){
		"another target":   func(d *client.Dialer) { d.Discovery.Target = "https://example.com" },
		"another revision": func(d *client.Dialer) { d.Revision = mcp.V20251125 },
		"unknown revision": func(d *client.Dialer) { d.Discovery.Revision = "2099-01-01" },
		"lacks something":  func(d *client.Dialer) { d.Require.Prompts = &mcp.PromptsCapability{} },
	} {
		now := answering("server/discover", ok(strings.Replace(discovered, `{"tools":{}}`, `{"tools":{},"prompts":{}}`, 1)),
			"initialize", ok(strings.ReplaceAll(initialized, "2025-06-18", "2025-11-25")))
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
		if now.methods() == "" {
			t.Errorf("%s: Dial sent nothing", name)
		}
		s.Close()
	}
}

// The description is as old as the memory, until somebody asks for a new one.
func TestDiscoverAsksAnew(t *testing.T) {
	now := answering("server/discover", ok(strings.NewReplacer(`"name":"new"`, `"name":"newer"`, `"ttlMs":0`, `"ttlMs":60000`).Replace(discovered)))
	c := remember(t, newMock(), now, quiet())
	if old := c.Discovery(); old.IsFresh(time.Now()) || old.Server.Info.Name != "new" {
		t.Errorf("before: %+v", old)
	}
	for range 2 {
		d, err := c.Discover(t.Context())
		if err != nil || d.Server.Info.Name != "newer" || c.Server().Info.Name != "newer" || !d.IsFresh(time.Now()) {
			t.Errorf("%+v, %v", d, err)
		}
	}
	if heard := now.methods(); heard != probed {
		t.Errorf("the server heard %s", heard)
	}
	old := remember(t, answering("initialize", ok(initialized)), answering("initialize", ok(initialized)), quiet())
	if d, err := old.Discover(t.Context()); err != nil || d.Server.Info.Name != "old" {
		t.Errorf("in a session: %+v, %v", d, err)
	}
}

// Watching begins with finding out.
func TestWatchHealsAWrongMemory(t *testing.T) {
	now := oldMock(status(400, ""))
	now.answers["initialize"] = []reply{ok(strings.Replace(initialized, `{"tools":{}}`, `{"tools":{"listChanged":true}}`, 1))}
	c := remember(t, newMock(), now, quiet())
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for change, err := range c.Watch(ctx, client.WatchFilter{Tools: true}) {
		if err != nil || change != (client.Change{Kind: client.ToolsChanged, Resync: true}) {
			t.Errorf("%+v, %v", change, err)
		}
		break
	}
}

// Clients that share a Cache share what a server says of itself, if it says how long.
func TestASharedCacheSparesTheDiscovery(t *testing.T) {
	m := answering("server/discover", ok(strings.Replace(discovered, `"ttlMs":0`, `"ttlMs":60000`, 1)))
	s := httptest.NewServer(m)
	defer s.Close()
	d := quiet()
	d.Cache = new(client.Cache)
	for range 3 {
		c, err := d.Dial(t.Context(), client.URL(s.URL))
		if err != nil {
			t.Fatal(err)
		}
		if text, err := client.CallTool[string](t.Context(), c, "a", nil); err != nil || text != "called" || c.Server().Info.Name != "new" {
			t.Errorf("%q, %v", text, err)
		}
		c.Close()
	}
	if heard := m.methods(); heard != probed+" tools/call tools/call tools/call" {
		t.Errorf("the server heard %s", heard)
	}
}

// handlerFunc serves with whichever mock there is at the moment.
type handlerFunc func() *mock

func (f handlerFunc) ServeHTTP(w http.ResponseWriter, r *http.Request) { f().ServeHTTP(w, r) }
