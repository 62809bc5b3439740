package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// When a server with CallerAuth reports that its lists have changed for a caller, the clients of that caller alone are notified, and
// each of two replicas has the new lists, whichever has the stream of the client.
func TestChangesOfTheListsOfACallerReachItsClients(t *testing.T) {
	for _, theirs := range []mcp.Revision{mcp.V20250618, mcp.V20251125, mcp.V20260728} {
		for _, ours := range everyRevision {
			t.Run(fmt.Sprintf("%s to %s", ours, theirs), func(t *testing.T) {
				u := newUsers(t, "ada", "bob")
				x := newExchange(t, u)
				p := newProtectedServer(t, x.URL)
				ownEntries(p.Server, "ada", "bob")
				x.up[p.url] = p
				kv := store.NewMemory(store.MemoryOptions{})
				u.replicas = nil
				for range 2 {
					s := &server.Server{Name: "gateway", Version: "1", Auth: u.resource(), KV: kv, Log: kv, Bus: kv, Keys: [][]byte{make([]byte, 32)}}
					h := &host.Host{Servers: []host.ServerConfig{p.config("up", x.callers())}, Dialer: client.Dialer{Revision: theirs}}
					gatewaytest.Run(t, h, s)
					t.Cleanup(func() { s.Shutdown(context.Background()) })
					u.replicas = append(u.replicas, s)
				}
				u.front.Start()
				t.Cleanup(u.front.Close)
				ada, bob := listenAs(t, u, "ada", ours), listenAs(t, u, "bob", ours)
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				for round := 0; ; round++ { // until the watch has begun
					name := fmt.Sprintf("ada_new%d", round)
					ownTool(p.Server, "ada", name)
					want := "up__" + name
					if ada.sees(ctx, want) {
						break
					}
					if ctx.Err() != nil {
						t.Fatalf("Ada does not see %s", want)
					}
				}
				ownTool(p.Server, "ada", "ada_last")
				for !ada.sees(ctx, "up__ada_last") || !ada.seesAtBoth("up__ada_last") {
					if ctx.Err() != nil {
						t.Fatal("a replica has the previous lists, and has not notified Ada of others")
					}
				}
				select {
				case <-bob.changed:
					t.Error("Bob has received a change of the lists")
				default:
				}
			})
		}
	}
}

// A server that is removed and added again, before the gateway has noticed, is watched again.
func TestListsOfACallerAreWatchedAgainWhenTheirServerReturns(t *testing.T) {
	u := newUsers(t, "ada")
	x := newExchange(t, u)
	p := newProtectedServer(t, x.URL)
	ownEntries(p.Server, "ada")
	x.up[p.url] = p
	unwatched := make(chan struct{}, 100)
	p.WhileListening = func(ctx context.Context) {
		<-ctx.Done()
		unwatched <- struct{}{}
	}
	other := weatherServer()
	up, otherConfig := p.config("up", x.callers()), inMemory(t, "weather", other)
	h := &host.Host{Servers: []host.ServerConfig{otherConfig, up}}
	var pause atomic.Bool
	paused, goOn := make(chan struct{}), make(chan struct{})
	gatewaytest.Run(t, h, u.server, func(g *gateway.Gateway) {
		g.OnCatalog = func(gateway.Catalog) { // Run calls it
			if pause.CompareAndSwap(true, false) {
				close(paused)
				<-goOn
			}
		}
	})
	u.front.Start()
	t.Cleanup(u.front.Close)
	t.Cleanup(func() { u.server.Shutdown(context.Background()) })
	ada := listenAs(t, u, "ada", mcp.V20260728)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	awaitChange := func(tool string) {
		t.Helper()
		for round := 0; ; round++ { // until the watch has begun
			name := fmt.Sprint(tool, round)
			ownTool(p.Server, "ada", name)
			if ada.sees(ctx, "up__"+name) {
				return
			}
			if ctx.Err() != nil {
				t.Fatalf("Ada does not see %s", name)
			}
		}
	}
	awaitChange("before")
	pause.Store(true)
	server.AddTool(other, mcp.Tool{Name: "more"}, func(context.Context, none) (string, error) { return "", nil })
	<-paused
	if err := h.SetServers([]host.ServerConfig{otherConfig}); err != nil {
		t.Fatal(err)
	}
	<-unwatched
	for stacks := make([]byte, 1<<20); bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("WatchCaller(")); {
		if runtime.Gosched(); ctx.Err() != nil {
			t.Fatal("the watch does not end")
		}
	}
	if err := h.SetServers([]host.ServerConfig{otherConfig, up}); err != nil {
		t.Fatal(err)
	}
	close(goOn)
	for !slices.Contains(toolNames(t, ada.Client), "up__before0") {
		if ctx.Err() != nil {
			t.Fatal("the server does not return")
		}
	}
	awaitChange("after")
}

// listening is a client with an open stream for changes of the list of tools.
type listening struct {
	*client.Client
	t       *testing.T
	changed chan struct{}
}

func listenAs(t *testing.T, u *users, name string, r mcp.Revision) *listening {
	l := &listening{u.dial(name, r), t, make(chan struct{}, 1000)}
	open := make(chan struct{})
	go func() {
		begun := false
		for change, err := range l.Watch(t.Context(), client.WatchFilter{Tools: true}) {
			switch {
			case err != nil:
			case change.Resync && !begun:
				begun = true
				close(open)
			default:
				l.changed <- struct{}{}
			}
		}
	}()
	<-open
	for range 2 { // both replicas exchange a token
		toolNames(t, l.Client)
	}
	return l
}

// sees waits for a notification of a change, lists the tools, and reports whether a tool is in the list.
func (l *listening) sees(ctx context.Context, tool string) bool {
	select {
	case <-l.changed:
		return slices.Contains(toolNames(l.t, l.Client), tool)
	case <-time.After(2 * time.Second): // the watch at the server has not begun
	case <-ctx.Done():
	}
	return false
}

// seesAtBoth reports whether a tool is in the lists of both replicas.
func (l *listening) seesAtBoth(tool string) bool {
	for range 4 {
		if !slices.Contains(toolNames(l.t, l.Client), tool) {
			return false
		}
	}
	return true
}
