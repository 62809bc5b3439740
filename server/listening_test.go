package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// Listening runs once for each caller with an open stream, in sessions and in 2026-07-28.
func TestListeningRunsForCallersWithAStream(t *testing.T) {
	d := newDiary()
	s := &server.Server{Logger: slog.New(slog.DiscardHandler)}
	linked.Declare(&s.Catalog, mcp.MethodCallTool)
	giveTo(s, person(t, "ada"))
	linked.Hooks(s).Listening = func(ctx context.Context) { d.follow(ctx, server.PrincipalOf(ctx).Subject()) }
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
	linked.Hooks(s).Listening = func(ctx context.Context) { <-ctx.Done() }
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
		outdated := make(chan string)
		var replicas []*server.Server
		for range 2 {
			s := &server.Server{Store: shared, Logger: slog.New(slog.DiscardHandler)}
			linked.Declare(&s.Catalog, mcp.MethodCallTool)
			linked.Hooks(s).Outdated = func(caller string) bool {
				outdated <- caller
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
		linked.ResourceUpdated(replicas[0], ada, "note://a") // which does not concern lists
		replicas[0].CatalogsChanged(ada)
		client.Receive()
		for range 3 { // tools, prompts and resources, at the other replica only
			must.CheckEqual(t, <-outdated, ada.Key())
		}
		client.Receive() // again, because the other replica had the previous lists
		synctest.Wait()
		select {
		case <-outdated:
			t.Error("Outdated was called four times")
		default:
		}
	})
}
