package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// Listening runs once for each caller with an open stream, in sessions and in 2026-07-28.
func TestListeningRunsForCallersWithAStream(t *testing.T) {
	d := newDiary()
	s := &server.Server{Logger: slog.New(slog.DiscardHandler)}
	s.Declare(mcp.MethodCallTool)
	giveTo(s, person(t, "ada"))
	s.WhileListening = func(ctx context.Context) { d.follow(ctx, server.PrincipalOf(ctx).Subject()) }
	listen := request(1, mcp.MethodListen, `"notifications":{"toolsListChanged":true}`)
	ada, again := connectLineAs(t, s, person(t, "ada")), connectLineAs(t, s, person(t, "ada"))
	ada.Send(listen)
	ada.Receive()
	d.expect(t, "+ada")
	again.Send(listen)
	again.Receive()
	bob := connectLineAs(t, s, person(t, "bob"))
	bob.Send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
		`"clientInfo":{"name":"c","version":"1"},"capabilities":{}}}`)
	bob.Receive()
	bob.Send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	d.expect(t, "+bob")
	other := connectLineAs(t, s, person(t, "eve"))
	other.Send(request(1, mcp.MethodListen, `"notifications":{"resourceSubscriptions":["note://a"]}`)) // no lists
	other.Receive()
	ada.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	again.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	d.expect(t, "-ada")
	must.Check(t, s.Shutdown(t.Context()))
	d.expect(t, "-bob")
}

// However many callers listen, resources are followed.
func TestListeningLeavesPlacesForResources(t *testing.T) {
	d := newDiary()
	s := quiet()
	giveTo(s, person(t, "ada"))
	s.WhileListening = func(ctx context.Context) { <-ctx.Done() }
	server.AddStatic(s, mcp.Resource{URI: "note://a", Name: "a"}, "text", server.WhileSubscribed(d.follow))
	must.Do(t, s.Check())
	for i := range 10_000 {
		s.SubscribeAs(person(t, fmt.Sprint(i)), mcp.SubscriptionFilter{ToolsListChanged: true})
	}
	s.SubscribeAs(person(t, "ada"), mcp.SubscriptionFilter{ResourceSubscriptions: []string{"note://a"}})
	d.expect(t, "+note://a")
	must.Check(t, s.Shutdown(t.Context()))
	d.expect(t, "-note://a")
}

func TestOtherReplicasLearnThatTheCatalogsOfACallerHaveChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := store.NewMemory()
		ada := person(t, "ada")
		outdated := make(chan bool)
		var replicas []*server.Server
		for range 2 {
			s := &server.Server{Store: shared, Logger: slog.New(slog.DiscardHandler)}
			s.Declare(mcp.MethodCallTool)
			s.CatalogsOutdated = func(concerns func(principal.Principal) bool) bool {
				outdated <- concerns(ada) && !concerns(person(t, "bob"))
				return true
			}
			must.Do(t, s.Check())
			defer s.Shutdown(t.Context())
			replicas = append(replicas, s)
		}
		synctest.Wait()
		client := connectLineAs(t, replicas[0], ada)
		client.Send(request(1, mcp.MethodListen, `"notifications":{"toolsListChanged":true}`))
		client.Receive()
		replicas[0].ResourceUpdated("note://a", ada) // which does not concern lists
		replicas[0].CatalogsChanged(ada)
		client.Receive()
		for range 3 { // tools, prompts and resources, at the other replica only
			must.CheckEqual(t, <-outdated, true)
		}
		client.Receive() // again, because the other replica had the previous lists
		synctest.Wait()
		select {
		case <-outdated:
			t.Error("CatalogsOutdated was called four times")
		default:
		}
	})
}

// A watch returns an error for each resource that the server does not watch, whatever the reason, and goes on with the
// others. If nothing is left, it ends at once.
func TestWatchReturnsAnErrorForEachRefusedResource(t *testing.T) {
	s := quiet()
	for uri, err := range map[string]error{"x:open": nil, "x:denied": jsonrpc.Errorf(-4711, "not for you"),
		"x:internal": errors.New("the database is down")} {
		server.AddStatic(s, mcp.Resource{URI: uri, Name: uri[2:]}, "",
			server.BeforeSubscribe(func(context.Context, string) error { return err }))
	}
	for _, r := range mcp.Revisions() {
		c := mcptest.Dial(t, s, mcptest.WithRevision(r))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		var got []string
		filter := client.WatchFilter{URIs: []string{"x:denied", "x:internal", "x:open"}}
		for change, err := range c.Watch(ctx, filter) {
			if got = append(got, fmt.Sprint(change.URI, " ", err != nil)); len(got) == 3 {
				s.ResourceUpdated("x:open")
			}
			if len(got) == 4 {
				break
			}
		}
		must.CheckEqual(t, fmt.Sprint(got), "[x:open false x:denied true x:internal true x:open false]", r)
		for _, uri := range []string{"x:denied", "x:internal"} {
			start, errs := time.Now(), 0
			for _, err := range c.Watch(ctx, client.WatchFilter{URIs: []string{uri}}) {
				if err != nil {
					errs++
				}
			}
			must.CheckEqual(t, errs == 1 && time.Since(start) < 10*time.Second && ctx.Err() == nil, true, r, uri)
		}
		cancel()
	}
}
