package client_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/jsonrpc"
)

// What servers say on subscriptions.
const (
	acknowledged    = `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":$id},"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["note://a/","note://c"]}}}`
	toolsChanged    = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":$id}}}`
	subscriptionEnd = `{"jsonrpc":"2.0","id":$id,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":$id}}}`
	subscriptionOff = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":$id}}`
	changing        = `"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"old","version":"1"}}`
)

func listening(lines ...string) string { return "!lines " + strings.Join(lines, "\n") }

// changes reads a watch, change by change.
func changes(t *testing.T, c *client.Client, options client.WatchFilter) func() (client.Change, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	next, stop := iter.Pull2(c.Watch(ctx, options))
	t.Cleanup(func() {
		stop()
		cancel()
	})
	return func() (client.Change, error) {
		change, err, ok := next()
		if !ok {
			t.Fatal("the watch has ended")
		}
		return change, err
	}
}

var resyncTools = client.Change{Kind: client.ToolsChanged, Resync: true}

func TestWatchSurvivesTheRestartOfAChild(t *testing.T) {
	modern, legacy := modernServer(), legacyServer()
	modern.Answers["subscriptions/listen"] = []string{listening(acknowledged)}
	modern.Answers["tools/call"] = []string{"!exit 3 killed"}
	legacy.Answers["initialize"] = []string{changing}
	legacy.Answers["tools/call"] = []string{"!exit 3 killed"}
	for name, s := range map[string]*script{"2026-07-28": modern, "2025-06-18": legacy} {
		t.Run(name, func(t *testing.T) {
			d := quiet()
			c, err := d.Dial(t.Context(), child(t, s))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			next := changes(t, c, client.WatchFilter{Tools: true})
			for range 3 {
				if change, err := next(); change != resyncTools || err != nil {
					t.Fatalf("%+v, %v", change, err)
				}
				if _, err := c.CallTool(t.Context(), "a", nil); err == nil {
					t.Fatal("the child lives")
				}
			}
		})
	}
}

// A server's end of a subscription is its cancellation and a result; either alone will do.
func TestWatchListensAnewWhenTheServerEndsASubscription(t *testing.T) {
	for name, end := range map[string]string{
		"both":         subscriptionOff + "\n" + subscriptionEnd,
		"cancellation": subscriptionOff,
		"result":       subscriptionEnd,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := modernServer()
				s.Answers["subscriptions/listen"] = []string{listening(acknowledged, end), listening(acknowledged, toolsChanged)}
				c, played := dial(t, s)
				next := changes(t, c, client.WatchFilter{Tools: true})
				for _, want := range []client.Change{resyncTools, {Kind: client.ToolsChanged}} {
					change, err := next()
					if change == resyncTools && !want.Resync { // from the first subscription, or the second
						change, err = next()
					}
					if err != nil || change.Kind != want.Kind {
						t.Fatalf("%+v, %v", change, err)
					}
				}
				c.Close()
				if heard := played.methods(); strings.Count(heard, "subscriptions/listen") != 2 {
					t.Errorf("the server heard %s", heard)
				}
			})
		})
	}
}

func TestWatchTakesWhatIsItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		update := func(id, uri string) string {
			return `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `},"uri":"` + uri + `"}}`
		}
		s := modernServer()
		s.Answers["subscriptions/listen"] = []string{listening(acknowledged)}
		s.Answers["tools/call"] = []string{listening(
			strings.Replace(toolsChanged, "$id", "77", 1), // of no subscription
			`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`,
			`{"jsonrpc":"2.0","method":"notifications/prompts/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":2}}}`, // not asked for
			update("2", "note://b"), update("2", "note://cc"), update("77", "note://c"),
			update("2", "note://a/part/1"), update("2", "note://a/part/2"), update("2", "note://c#2"),
			`{"jsonrpc":"2.0","id":$id,`+called+`}`,
		)}
		c, _ := dial(t, s)
		next := changes(t, c, client.WatchFilter{Tools: true, URIs: []string{"note://a/", "note://b", "note://c"}})
		for range 3 {
			if change, err := next(); !change.Resync || change.URI == "note://b" || err != nil {
				t.Fatalf("%+v, %v", change, err)
			}
		}
		if _, err := c.CallTool(t.Context(), "a", nil); err != nil {
			t.Fatal(err)
		}
		for _, uri := range []string{"note://a/", "note://c"} {
			if change, err := next(); change != (client.Change{Kind: client.ResourceUpdated, URI: uri}) || err != nil {
				t.Errorf("%+v, %v", change, err)
			}
		}
	})
}

func TestWatchGivesUpOnAServerThatStaysAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := modernServer()
		s.Answers["subscriptions/listen"] = []string{listening(acknowledged), "!close"}
		away := modernServer()
		away.Answers["server/discover"] = []string{"!close"}
		s.Answers["tools/call"] = []string{"!close"}
		c, _ := dial(t, s, away)
		next := changes(t, c, client.WatchFilter{Tools: true})
		if change, err := next(); change != resyncTools || err != nil {
			t.Fatalf("%+v, %v", change, err)
		}
		_, _ = c.CallTool(t.Context(), "a", nil)
		begun := time.Now()
		if change, err := next(); !errors.Is(err, client.ErrConnectionLost) {
			t.Fatalf("%+v, %v", change, err)
		}
		if d := time.Since(begun); d < 10*time.Second || d > 2*time.Minute {
			t.Errorf("it was tried for %v", d)
		}
	})
}

func TestWatchThatIsNeverAcknowledgedFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := modernServer()
		s.Answers["subscriptions/listen"] = []string{""}
		c, _ := dial(t, s)
		next := changes(t, c, client.WatchFilter{Tools: true})
		if change, err := next(); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%+v, %v", change, err)
		}
	})
}

func TestWatchThatIsRefusedFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, played := dial(t, modernServer())
		next := changes(t, c, client.WatchFilter{})
		var reported *jsonrpc.Error
		if change, err := next(); !errors.As(err, &reported) {
			t.Fatalf("%+v, %v", change, err)
		}
		c.Close()
		if heard := played.methods(); strings.Count(heard, "subscriptions/listen") != 1 {
			t.Errorf("the server heard %s", heard)
		}
	})
}
