package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

func subscribedTo(uris ...string) mcp.SubscriptionFilter {
	return mcp.SubscriptionFilter{ToolsListChanged: true, ResourceSubscriptions: uris}
}

// drained returns the changes that are ready.
func drained(s *rpc.Subscription) []rpc.Change {
	select {
	case <-s.Ready():
		return s.Take()
	default:
		return nil
	}
}

func TestSingleChangeIsDeliveredAtOnceAndManyAreMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hub rpc.Changes
		sub := hub.Subscribe(principal.Local, subscribedTo("note://a"))
		defer sub.Close()
		tools := rpc.Change{Kind: rpc.ToolsChanged}
		hub.Publish(tools)
		if got := drained(sub); !slices.Equal(got, []rpc.Change{tools}) {
			t.Fatalf("the first change: %v", got)
		}
		deliveries := 0
		for range 10_000 { // for ten seconds
			hub.Publish(tools)
			hub.Publish(rpc.Change{Kind: rpc.ResourceUpdated, URI: "note://a"})
			time.Sleep(time.Millisecond)
			synctest.Wait()
			if got := drained(sub); got != nil {
				deliveries++
				if len(got) > 2 {
					t.Fatalf("one delivery of %v", got)
				}
			}
		}
		if deliveries < 100 || deliveries > 201 {
			t.Errorf("%d deliveries in ten seconds", deliveries)
		}
		hub.Publish(tools) // the last change is delivered too
		select {
		case <-sub.Ready():
		case <-time.After(time.Second):
			t.Error("the last change was not delivered")
		}
	})
}

func TestSubscriptionReceivesOnlyWhatItsFilterIncludes(t *testing.T) {
	var hub rpc.Changes
	sub := hub.Subscribe(principal.Local, subscribedTo("note://a"))
	defer sub.Close()
	for _, c := range []rpc.Change{
		{Kind: rpc.PromptsChanged}, {Kind: rpc.ResourcesChanged}, {Kind: rpc.ResourceUpdated, URI: "note://b"}, {Kind: rpc.ResourceUpdated, URI: "note://a/part"},
	} {
		hub.Publish(c)
		if got := drained(sub); got != nil {
			t.Errorf("%v was delivered as %v", c, got)
		}
	}
	hub.Publish(rpc.Change{Kind: rpc.ToolsChanged})
	hub.Publish(rpc.Change{Kind: rpc.ResourceUpdated, URI: "note://a"})
	sub.Set(mcp.SubscriptionFilter{ResourcesListChanged: true}) // before the delivery
	if got := drained(sub); len(got) != 0 {
		t.Errorf("delivered after the filter changed: %v", got)
	}
}

func TestRecordedChangeReplacesResync(t *testing.T) {
	sub := rpc.NewSubscription(subscribedTo("note://b", "note://a"))
	sub.Resync()
	sub.Record(rpc.Change{Kind: rpc.ResourceUpdated, URI: "note://b"})
	sub.Resync()
	want := []rpc.Change{
		{Kind: rpc.ToolsChanged, Resync: true},
		{Kind: rpc.ResourceUpdated, URI: "note://a", Resync: true},
		{Kind: rpc.ResourceUpdated, URI: "note://b"},
	}
	if got := drained(sub); !slices.Equal(got, want) {
		t.Errorf("delivered %v, want %v", got, want)
	}
}

func TestPartBelongsToTheLongestMatchingResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for part, whole := range map[string]string{
			"note://a":      "note://a",
			"note://a/b/c":  "note://a/b",
			"note://a/bc":   "note://a",
			"note://a?q=1":  "note://a",
			"note://ab":     "",
			"other://x/y/z": "other://x/",
			"other://x":     "",
		} {
			sub := rpc.NewSubscription(subscribedTo("note://a", "note://a/b", "other://x/"))
			sub.IncludeParts = true
			sub.Record(rpc.Change{Kind: rpc.ResourceUpdated, URI: part})
			got := ""
			for _, c := range drained(sub) {
				got = c.URI
			}
			if got != whole {
				t.Errorf("%s is a part of %q, want %q", part, got, whole)
			}
		}
	})
}

func TestChangesIsSafeForConcurrentUse(t *testing.T) {
	var hub rpc.Changes
	last := hub.Subscribe(principal.Local, subscribedTo("note://a"))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				sub := hub.Subscribe(principal.Local, subscribedTo("note://a"))
				hub.Publish(rpc.Change{Kind: rpc.ToolsChanged})
				sub.Add("note://b")
				sub.Take()
				sub.Remove("note://a")
				_ = hub.HasSubscriber("note://a")
				sub.Close()
				sub.Close()
			}
		})
	}
	wg.Wait()
	if n := hub.Len(); n != 1 {
		t.Errorf("%d subscriptions are left", n)
	}
	if got := drained(last); !slices.Equal(got, []rpc.Change{{Kind: rpc.ToolsChanged}}) {
		t.Errorf("delivered %v", got)
	}
	last.Close()
	hub.Publish(rpc.Change{Kind: rpc.ToolsChanged})
	if got := drained(last); len(got) != 0 {
		t.Errorf("delivered after Close: %v", got)
	}
}

func TestCheckSubscriptionsLimitsResources(t *testing.T) {
	many := func(n, size int) []string { return slices.Repeat([]string{strings.Repeat("x", size)}, n) }
	for _, uris := range [][]string{nil, many(1024, 10), many(1, 8<<10), many(128, 8<<10)} {
		if err := rpc.CheckSubscriptions(uris); err != nil {
			t.Errorf("%d URIs: %v", len(uris), err)
		}
	}
	for _, uris := range [][]string{{""}, many(1025, 1), many(1, 8<<10+1), many(129, 8<<10)} {
		var e *jsonrpc.Error
		if err := rpc.CheckSubscriptions(uris); !errors.As(err, &e) || e.Code != jsonrpc.CodeInvalidParams {
			t.Errorf("%d URIs: %v", len(uris), err)
		}
	}
}

func TestSubscriptionsHaveTheirOwnLimit(t *testing.T) {
	f := &rpc.Inflight{Max: 1}
	served := make(chan struct{})
	listening := rpc.NewEngine(map[string]rpc.Handler{mcp.MethodListen: func(ctx context.Context, c *rpc.Call) (any, error) {
		served <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}}, nil)
	var wg sync.WaitGroup
	listen := func(i int) {
		wg.Go(func() {
			c := callOf(int64(i), mcp.MethodListen, mcp.V20260728)
			if out := appendReply(t.Context(), nil, f, listening, c, nil); len(out) > 0 {
				t.Errorf("response to a cancelled subscription: %s", out)
			}
		})
		<-served
	}
	for i := range rpc.MaxSubscriptions {
		listen(i)
	}
	if n := f.Len(); n != 0 {
		t.Errorf("%d requests are in flight, not counting subscriptions", n)
	}
	if _, err := f.Begin(t.Context(), jsonrpc.StringID("call")); err != nil {
		t.Errorf("the first request: %v", err)
	}
	if _, err := f.Begin(t.Context(), jsonrpc.StringID("another")); !errors.Is(err, rpc.ErrTooManyInFlight) {
		t.Errorf("the second request: %v", err)
	}
	beyond := callOf(1<<20, mcp.MethodListen, mcp.V20260728)
	if out := appendReply(t.Context(), nil, f, listening, beyond, nil); !strings.Contains(string(out), rpc.ErrTooManySubscriptions.Error()) {
		t.Errorf("a subscription above the limit: %s", out)
	}
	f.Cancel(jsonrpc.IntID(3), call.ErrCancelled)
	listen(rpc.MaxSubscriptions) // may begin before the cancelled handler returns
	f.CancelAll(call.ErrCancelled)
	wg.Wait()
	for i := range 2 { // the count is correct afterwards
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			for i := range rpc.MaxSubscriptions {
				listen(i)
			}
			f.CancelAll(call.ErrCancelled)
			wg.Wait()
		})
	}
}

func TestSubscribedResourcesListsEachSubscriberOnce(t *testing.T) {
	var hub rpc.Changes
	changed := 0
	hub.OnSubscribersChanged(func() { changed++ })
	expect := func(changes int, want ...rpc.SubscribedResource) {
		t.Helper()
		got := hub.SubscribedResources()
		for _, i := range got {
			slices.SortFunc(i.Subscribers, func(a, b principal.Principal) int { return strings.Compare(a.Key(), b.Key()) })
		}
		if !reflect.DeepEqual(got, want) || changed != changes {
			t.Errorf("%d changes: %v\nwant %d: %v", changed, got, changes, want)
		}
	}
	both := []principal.Principal{principal.Anonymous, principal.Local}
	slices.SortFunc(both, func(a, b principal.Principal) int { return strings.Compare(a.Key(), b.Key()) })
	expect(0)
	one := hub.Subscribe(principal.Local, subscribedTo("b", "a"))
	again := hub.Subscribe(principal.Local, subscribedTo("a"))
	other := hub.Subscribe(principal.Anonymous, subscribedTo("a"))
	if all := hub.ListSubscribers(); len(all) != 2 {
		t.Errorf("subscribers to lists: %v", all)
	}
	expect(5, rpc.SubscribedResource{URI: "a", Subscribers: both}, rpc.SubscribedResource{URI: "b", Subscribers: []principal.Principal{principal.Local}})
	other.Close()
	again.Add("c")
	one.Set(subscribedTo("a"))
	expect(9, rpc.SubscribedResource{URI: "a", Subscribers: []principal.Principal{principal.Local}}, rpc.SubscribedResource{URI: "c", Subscribers: []principal.Principal{principal.Local}})
	again.Remove("c")
	one.Close()
	expect(10, rpc.SubscribedResource{URI: "a", Subscribers: []principal.Principal{principal.Local}})
	again.Close()
	again.Set(subscribedTo("d"))
	expect(12)
	if all := hub.ListSubscribers(); len(all) != 0 {
		t.Errorf("subscribers to lists: %v", all)
	}
}
