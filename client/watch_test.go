package client_test

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Messages on subscriptions.
const (
	acknowledged = `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged",` +
		`"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":$id},"notifications":{"toolsListChanged":true,` +
		`"promptsListChanged":true,"resourceSubscriptions":["note://a/","note://c"]}}}`
	toolsChanged = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed",` +
		`"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":$id}}}`
	subscriptionEnd = `{"jsonrpc":"2.0","id":$id,"result":{"resultType":"complete",` +
		`"_meta":{"io.modelcontextprotocol/subscriptionId":$id}}}`
	subscriptionOff = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":$id}}`
	changing        = `"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},` +
		`"serverInfo":{"name":"old","version":"1"}}`
)

func listening(lines ...string) string { return "!lines " + strings.Join(lines, "\n") }

// changes watches, and returns a function that returns the next change.
func changes(t *testing.T, c *client.Client, filter client.WatchFilter) func() (client.Change, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	next, stop := iter.Pull2(c.Watch(ctx, filter))
	t.Cleanup(func() {
		stop()
		cancel()
	})
	return func() (client.Change, error) {
		change, err, ok := next()
		must.That(t, ok, "the watch ended without an error")
		return change, err
	}
}

var resyncTools = client.Change{Kind: client.ToolsChanged, Resync: true}

func TestWatchSurvivesARestartedProcess(t *testing.T) {
	t.Parallel()
	modern, legacy := watchable(), legacyServer()
	modern.Answers["subscriptions/listen"] = []string{listening(acknowledged)}
	modern.Answers["tools/call"] = []string{"!exit 3 killed"}
	legacy.Answers["initialize"] = []string{changing}
	legacy.Answers["tools/call"] = []string{"!exit 3 killed"}
	for name, s := range map[string]*script{"2026-07-28": modern, "2025-06-18": legacy} {
		t.Run(name, func(t *testing.T) {
			d := quiet()
			c := must.Get(d.Dial(t.Context(), child(t, s)))(t)
			defer c.Close()
			next := changes(t, c, client.WatchFilter{Tools: true})
			for range 3 {
				change, err := next()
				must.That(t, change == resyncTools && err == nil, "got %+v, %v", change, err)
				_, err = c.CallTool(t.Context(), "a", nil)
				must.That(t, err != nil, "the call succeeded, want the process to exit")
			}
		})
	}
}

// A server ends a subscription with notifications/cancelled and a result. The client accepts
// either alone.
func TestWatchListensAgainAfterTheServerEndsASubscription(t *testing.T) {
	for name, end := range map[string]string{
		"both":         subscriptionOff + "\n" + subscriptionEnd,
		"cancellation": subscriptionOff,
		"result":       subscriptionEnd,
	} {
		inBubble(t, name, func(t *testing.T) {
			s := watchable()
			s.Answers["subscriptions/listen"] = []string{listening(acknowledged, end),
				listening(acknowledged, toolsChanged)}
			c, rec := dial(t, s)
			next := changes(t, c, client.WatchFilter{Tools: true})
			for _, want := range []client.Change{resyncTools, {Kind: client.ToolsChanged}} {
				change, err := next()
				if change == resyncTools && !want.Resync { // reported by either subscription
					change, err = next()
				}
				must.Do(t, err)
				must.Equal(t, change.Kind, want.Kind, change)
			}
			c.Close()
			rec.wants(t, "subscriptions/listen", 2)
		})
	}
}

func TestWatchIgnoresOtherNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		update := func(id, uri string) string {
			return `{"jsonrpc":"2.0","method":"notifications/resources/updated",` +
				`"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `},"uri":"` + uri + `"}}`
		}
		s := watchable()
		s.Answers["subscriptions/listen"] = []string{listening(acknowledged)}
		s.Answers["tools/call"] = []string{listening(
			strings.Replace(toolsChanged, "$id", "77", 1), // belongs to an unknown subscription
			// outside the filter
			`{"jsonrpc":"2.0","method":"notifications/prompts/list_changed",`+
				`"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":2}}}`,
			update("2", "note://b"), update("2", "note://cc"), update("77", "note://c"),
			update("2", "note://a/part/1"), update("2", "note://a/part/2"), update("2", "note://c#2"),
			`{"jsonrpc":"2.0","id":$id,`+called+`}`,
		)}
		c, _ := dial(t, s)
		all := changes(t, c, client.WatchFilter{Tools: true, URIs: []string{"note://a/", "note://b", "note://c"}})
		next := func() (client.Change, error) {
			change, err := all()
			if err != nil && change.URI == "note://b" { // the server does not watch it; other changes may come first
				return all()
			}
			return change, err
		}
		for range 3 {
			change, err := next()
			must.That(t, change.Resync && change.URI != "note://b" && err == nil, "got %+v, %v", change, err)
		}
		must.Get(c.CallTool(t.Context(), "a", nil))(t)
		for _, uri := range []string{"note://a/", "note://c"} {
			if change, err := next(); change != (client.Change{Kind: client.ResourceUpdated, URI: uri}) || err != nil {
				t.Errorf("got %+v, %v", change, err)
			}
		}
	})
}

func TestWatchEndsAfterRepeatedFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := watchable()
		s.Answers["subscriptions/listen"] = []string{listening(acknowledged), "!close"}
		down := watchable()
		down.Answers["server/discover"] = []string{"!close"}
		s.Answers["tools/call"] = []string{"!close"}
		c, _ := dial(t, s, down)
		next := changes(t, c, client.WatchFilter{Tools: true})
		change, err := next()
		must.That(t, change == resyncTools && err == nil, "got %+v, %v", change, err)
		_, _ = c.CallTool(t.Context(), "a", nil)
		start := time.Now()
		must.Is(t, must.Err(next()), call.ErrConnectionLost)
		d := time.Since(start)
		must.CheckThat(t, d >= 10*time.Second && d <= 2*time.Minute, "the watch ended after %v, want 10 s to 2 min", d)
	})
}

func TestWatchFailsWithoutAcknowledgement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := watchable()
		s.Answers["subscriptions/listen"] = []string{""}
		c, _ := dial(t, s)
		next := changes(t, c, client.WatchFilter{Tools: true})
		must.Is(t, must.Err(next()), context.DeadlineExceeded)
	})
}

func TestRejectedWatchFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := watchable()
		delete(s.Answers, "subscriptions/listen")
		c, rec := dial(t, s)
		next := changes(t, c, client.WatchFilter{})
		var reported *jsonrpc.Error
		change, err := next()
		must.That(t, errors.As(err, &reported), "got %+v, %v", change, err)
		c.Close()
		rec.wants(t, "subscriptions/listen", 1)
	})
}

// watchable returns a server of 2026-07-28 that declares that it reports changes.
func watchable() *script {
	return declaring(`{"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},` +
		`"tools":{"listChanged":true}}`)["2026-07-28"]
}

// declaring returns one server for each era. Each declares the capabilities and
// accepts every subscription.
func declaring(capabilities string) map[string]*script {
	modern, legacy := modernServer(), legacyServer()
	modern.Answers["server/discover"] = []string{`"result":{"resultType":"complete",` +
		`"supportedVersions":["2026-07-28"],"capabilities":` + capabilities + `,"ttlMs":0,"cacheScope":"private"}`}
	modern.Answers["subscriptions/listen"] = []string{listening(acknowledged)}
	legacy.Answers["initialize"] = []string{strings.Replace(initialized, `{"tools":{}}`, capabilities, 1)}
	legacy.Answers["resources/subscribe"] = []string{`"result":{}`}
	return map[string]*script{"2026-07-28": modern, "2025-06-18": legacy}
}

// A server that does not declare a capability does not report its changes, even if it accepts
// the subscription.
func TestWatchOfUndeclaredChangesFailsAtOnce(t *testing.T) {
	for name, test := range map[string]struct {
		capabilities string
		filter       client.WatchFilter
	}{
		"listChanged is false": {`{"tools":{"listChanged":false},"prompts":{"listChanged":false},` +
			`"resources":{"listChanged":false}}`, client.WatchFilter{}},
		"listChanged is absent": {`{"tools":{},"prompts":{},"resources":{"subscribe":true}}`, client.WatchFilter{}},
		"no capability":         {`{}`, client.WatchFilter{Tools: true}},
		"another list": {`{"tools":{"listChanged":true}}`,
			client.WatchFilter{Prompts: true, URIs: []string{"note://a/"}}},
		"subscribe is false": {`{"resources":{"listChanged":true,"subscribe":false}}`,
			client.WatchFilter{URIs: []string{"note://a/"}}},
		"no resources capability": {`{"tools":{"listChanged":true}}`, client.WatchFilter{URIs: []string{"note://a/"}}},
	} {
		for era, s := range declaring(test.capabilities) {
			inBubble(t, name+"/"+era, func(t *testing.T) {
				c, rec := dial(t, s)
				next := changes(t, c, test.filter)
				start := time.Now()
				if change, err := next(); !errors.Is(err, errors.ErrUnsupported) || time.Since(start) > 0 {
					t.Errorf("got %+v, %v after %v", change, err, time.Since(start))
				}
				c.Close()
				rec.wants(t, "subscri", 0)
			})
		}
	}
}

// A watch reports the part of its filter that the server declares.
func TestWatchLeavesOutUndeclaredChanges(t *testing.T) {
	for era, s := range declaring(`{"tools":{"listChanged":true},"prompts":{"listChanged":false},"resources":{}}`) {
		inBubble(t, era, func(t *testing.T) {
			c, _ := dial(t, s)
			next := changes(t, c, client.WatchFilter{Tools: true, Prompts: true, URIs: []string{"note://a/"}})
			change, err := next()
			must.That(t, change == resyncTools && err == nil, "got %+v, %v", change, err)
		})
	}
}

// The result of subscriptions/listen may follow an acknowledgement that ends the watch at once.
func TestWatchThatIsNotHonouredFailsAtOnce(t *testing.T) {
	const none = `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged",` +
		`"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":$id},"notifications":{}}}`
	for name, lines := range map[string][]string{
		"acknowledgement": {none}, "with result": {none, subscriptionEnd}, "with cancellation": {none, subscriptionOff},
	} {
		inBubble(t, name, func(t *testing.T) {
			s := watchable()
			s.Answers["subscriptions/listen"] = []string{listening(lines...)}
			c, rec := dial(t, s)
			next := changes(t, c, client.WatchFilter{Tools: true})
			must.CheckIs(t, must.Err(next()), errors.ErrUnsupported)
			c.Close()
			rec.wants(t, "subscriptions/listen", 1)
		})
	}
}

// Some servers leave out the id of the subscription.
func TestWatchAcceptsChangesWithoutSubscription(t *testing.T) {
	for name, params := range map[string]string{"no params": "", "empty params": `,"params":{}`,
		"empty _meta": `,"params":{"_meta":{}}`} {
		inBubble(t, name, func(t *testing.T) {
			s := watchable()
			s.Answers["subscriptions/listen"] = []string{listening(acknowledged)}
			change := func(method string) string {
				return `{"jsonrpc":"2.0","method":"notifications/` + method + `"` + params + `}`
			}
			s.Answers["tools/call"] = []string{listening(
				change("prompts/list_changed"), // not in the filter
				change("unknown"), change("tools/list_changed"), `{"jsonrpc":"2.0","id":$id,`+called+`}`,
			)}
			c, _ := dial(t, s)
			next := changes(t, c, client.WatchFilter{Tools: true})
			if change, err := next(); change != resyncTools || err != nil {
				t.Fatalf("got %+v, %v", change, err)
			}
			must.Get(c.CallTool(t.Context(), "a", nil))(t)
			if change, err := next(); change != (client.Change{Kind: client.ToolsChanged}) || err != nil {
				t.Errorf("got %+v, %v", change, err)
			}
		})
	}
}

// A server that ends each subscription at once does not make the client listen again at a constant
// rate: the pauses grow until a subscription lasts.
func TestPausesOfAWatchGrowWhileItDoesNotLast(t *testing.T) {
	modern, legacy := watchable(), legacyServer()
	modern.Answers["subscriptions/listen"] = []string{listening(acknowledged, subscriptionEnd)}
	legacy.Answers["initialize"] = []string{changing}
	legacy.Last = "ping"
	for method, s := range map[string]*script{"subscriptions/listen": modern, "ping": legacy} {
		inBubble(t, method, func(t *testing.T) {
			c, rec := dial(t, s)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			for change, err := range c.Watch(ctx, client.WatchFilter{Tools: true}) {
				must.That(t, change == resyncTools && err == nil, "got %+v, %v", change, err)
			}
			c.Close()
			if n := strings.Count(rec.methods(), method); n < 30 || n > 100 { // pauses of up to 16 s
				t.Errorf("the server received %d %s in ten minutes", n, method)
			}
		})
	}
}

// If the server rejects a watch because of a limit, the client waits as long as the server asks.
func TestWatchWaitsUntilTheOverloadIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := watchable()
		s.Answers["subscriptions/listen"] = []string{`"error":{"code":-32000,"message":"busy",` +
			`"data":{"retryAfterMs":45000}}`, listening(acknowledged)}
		c, _ := dial(t, s)
		defer c.Close()
		start := time.Now()
		change, err := changes(t, c, client.WatchFilter{Tools: true})()
		must.That(t, change == resyncTools && err == nil, "got %+v, %v", change, err)
		d := time.Since(start)
		must.CheckThat(t, d >= 45*time.Second && d <= time.Minute, "the watch began after %v, want 45 s", d)
	})
}

// However the loop is left, the watch ends with it.
func TestWatchEndsWithItsLoop(t *testing.T) {
	for name, leave := range map[string]func(){
		"panic":  func() { panic("a mistake of the program") },
		"Goexit": runtime.Goexit,
	} {
		inBubble(t, name, func(t *testing.T) {
			ended := make(chan struct{}, 1)
			d := quiet()
			d.Middleware = []call.Middleware{func(next call.Handler) call.Handler {
				return func(ctx context.Context, c *call.Call) (any, error) {
					result, err := next(ctx, c)
					if c.Method() == mcp.MethodListen {
						ended <- struct{}{}
					}
					return result, err
				}
			}}
			s := watchable()
			s.Answers["subscriptions/listen"] = []string{"!lines " + acknowledged}
			to, _ := target(s)
			c := must.Get(d.Dial(t.Context(), to))(t)
			defer c.Close()
			left := make(chan struct{})
			go func() {
				defer close(left)
				defer func() { _ = recover() }()
				for range c.Watch(t.Context(), client.WatchFilter{Tools: true}) {
					leave()
				}
			}()
			<-left
			select {
			case <-ended: // the request has ended
			default:
				t.Error("the subscription goes on")
			}
		})
	}
}
