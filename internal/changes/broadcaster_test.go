package changes_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

func subscribedTo(uris ...string) mcp.SubscriptionFilter {
	return mcp.SubscriptionFilter{ToolsListChanged: true, ResourceSubscriptions: uris}
}

// drained returns the changes that are ready.
func drained(s *changes.Subscription) []changes.Change {
	select {
	case <-s.Ready():
		return s.Take()
	default:
		return nil
	}
}

func TestSingleChangeIsDeliveredAtOnceAndManyAreMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hub changes.Broadcaster
		sub := hub.Subscribe(principal.Local, subscribedTo("note://a"))
		defer sub.Close()
		tools := changes.Change{Kind: changes.ToolsChanged}
		hub.Publish(tools)
		got := drained(sub)
		must.That(t, slices.Equal(got, []changes.Change{tools}), "the first change: %v", got)
		deliveries := 0
		for range 10_000 { // for ten seconds
			hub.Publish(tools)
			hub.Publish(changes.Change{Kind: changes.ResourceUpdated, URI: "note://a"})
			time.Sleep(time.Millisecond)
			synctest.Wait()
			if got := drained(sub); got != nil {
				deliveries++
				must.That(t, len(got) <= 2, "one delivery of %v", got)
			}
		}
		must.CheckThat(t, deliveries >= 100 && deliveries <= 201, "%d deliveries in ten seconds", deliveries)
		hub.Publish(tools) // the last change is delivered, too
		select {
		case <-sub.Ready():
		case <-time.After(time.Second):
			t.Error("the last change was not delivered")
		}
	})
}

func TestSubscriptionReceivesOnlyWhatItsFilterIncludes(t *testing.T) {
	var hub changes.Broadcaster
	sub := hub.Subscribe(principal.Local, subscribedTo("note://a"))
	defer sub.Close()
	for _, c := range []changes.Change{
		{Kind: changes.PromptsChanged}, {Kind: changes.ResourcesChanged},
		{Kind: changes.ResourceUpdated, URI: "note://b"},
		{Kind: changes.ResourceUpdated, URI: "note://a/part"},
	} {
		hub.Publish(c)
		got := drained(sub)
		must.CheckThat(t, got == nil, "%v was delivered as %v", c, got)
	}
	hub.Publish(changes.Change{Kind: changes.ToolsChanged})
	hub.Publish(changes.Change{Kind: changes.ResourceUpdated, URI: "note://a"})
	sub.Set(mcp.SubscriptionFilter{ResourcesListChanged: true}) // before the delivery
	got := drained(sub)
	must.CheckEqual(t, len(got), 0, "delivered after the filter changed", got)
}

func TestRecordedChangeReplacesResync(t *testing.T) {
	sub := changes.NewSubscription(subscribedTo("note://b", "note://a"))
	sub.Resync()
	sub.Record(changes.Change{Kind: changes.ResourceUpdated, URI: "note://b"})
	sub.Resync()
	want := []changes.Change{
		{Kind: changes.ToolsChanged, Resync: true},
		{Kind: changes.ResourceUpdated, URI: "note://a", Resync: true},
		{Kind: changes.ResourceUpdated, URI: "note://b"},
	}
	got := drained(sub)
	must.CheckThat(t, slices.Equal(got, want), "delivered %v, want %v", got, want)
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
			sub := changes.NewSubscription(subscribedTo("note://a", "note://a/b", "other://x/"))
			sub.IncludeParts = true
			sub.Record(changes.Change{Kind: changes.ResourceUpdated, URI: part})
			got := ""
			for _, c := range drained(sub) {
				got = c.URI
			}
			must.CheckEqual(t, got, whole, part)
		}
	})
}

func TestChangesIsSafeForConcurrentUse(t *testing.T) {
	var hub changes.Broadcaster
	last := hub.Subscribe(principal.Local, subscribedTo("note://a"))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				sub := hub.Subscribe(principal.Local, subscribedTo("note://a"))
				hub.Publish(changes.Change{Kind: changes.ToolsChanged})
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
	must.CheckEqual(t, hub.Len(), 1)
	got := drained(last)
	must.CheckThat(t, slices.Equal(got, []changes.Change{{Kind: changes.ToolsChanged}}), "delivered %v", got)
	last.Close()
	hub.Publish(changes.Change{Kind: changes.ToolsChanged})
	if got := drained(last); len(got) != 0 {
		t.Errorf("delivered after Close: %v", got)
	}
}

func TestCheckSubscriptionsLimitsResources(t *testing.T) {
	many := func(n, size int) []string { return slices.Repeat([]string{strings.Repeat("x", size)}, n) }
	for _, uris := range [][]string{nil, many(1024, 10), many(1, 8<<10), many(128, 8<<10)} {
		must.Check(t, changes.CheckSubscriptions(uris), len(uris))
	}
	for _, uris := range [][]string{{""}, many(1025, 1), many(1, 8<<10+1), many(129, 8<<10)} {
		var e *jsonrpc.Error
		err := changes.CheckSubscriptions(uris)
		must.CheckThat(t, errors.As(err, &e) && e.Code == jsonrpc.CodeInvalidParams, "%d URIs: %v", len(uris), err)
	}
}

func TestSubscribedResourcesListsEachSubscriberOnce(t *testing.T) {
	var hub changes.Broadcaster
	changed := 0
	hub.OnSubscribersChanged(func() { changed++ })
	expect := func(calls int, want ...changes.SubscribedResource) {
		t.Helper()
		got := hub.SubscribedResources()
		for _, i := range got {
			slices.SortFunc(i.Subscribers, func(a, b principal.Principal) int {
				return strings.Compare(a.Key(), b.Key())
			})
		}
		must.CheckThat(t, reflect.DeepEqual(got, want) && changed == calls,
			"%d changes: %v\nwant %d: %v", changed, got, calls, want)
	}
	both := []principal.Principal{principal.Anonymous, principal.Local}
	slices.SortFunc(both, func(a, b principal.Principal) int { return strings.Compare(a.Key(), b.Key()) })
	expect(0)
	one := hub.Subscribe(principal.Local, subscribedTo("b", "a"))
	again := hub.Subscribe(principal.Local, subscribedTo("a"))
	other := hub.Subscribe(principal.Anonymous, subscribedTo("a"))
	all := hub.ListSubscribers()
	must.CheckEqual(t, len(all), 2, "subscribers to lists", all)
	expect(5, changes.SubscribedResource{URI: "a", Subscribers: both},
		changes.SubscribedResource{URI: "b", Subscribers: []principal.Principal{principal.Local}})
	other.Close()
	again.Add("c")
	one.Set(subscribedTo("a"))
	expect(9, changes.SubscribedResource{URI: "a", Subscribers: []principal.Principal{principal.Local}},
		changes.SubscribedResource{URI: "c", Subscribers: []principal.Principal{principal.Local}})
	again.Remove("c")
	one.Close()
	expect(10, changes.SubscribedResource{URI: "a", Subscribers: []principal.Principal{principal.Local}})
	again.Close()
	again.Set(subscribedTo("d"))
	expect(12)
	if all := hub.ListSubscribers(); len(all) != 0 {
		t.Errorf("subscribers to lists: %v", all)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
