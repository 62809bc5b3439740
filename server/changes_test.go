package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/spec"
	"github.com/parley-mcp/parley/internal/storecheck"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
	"github.com/parley-mcp/parley/transport"
)

func listenRequest(id, filter string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"subscriptions/listen","params":{%s,"notifications":%s}}`, id,
		wiretest.Meta, filter)
}

// connect serves a new connection.
func connect(t *testing.T, s *server.Server) *wiretest.Peer { return wiretest.Connect(t, s.ServeConn) }

func acknowledged(id, filter string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged",`+
		`"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":%s}}`, id, filter)
}

func tagged(id, method string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/%s",`+
		`"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`, method, id)
}

func updated(id, uri string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/resources/updated",`+
		`"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"uri":%q}}`, id, uri)
}

func ended(id string) []string {
	return []string{
		fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled",`+
			`"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"requestId":%s,"reason":"the server `+
			`ends the subscription"}}`, id, id),
		fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete",`+
			`"_meta":{"io.modelcontextprotocol/subscriptionId":%s,`+
			`"io.modelcontextprotocol/serverInfo":{"name":"parley","version":"0.0.0"}}}}`, id, id),
	}
}

func cancelled(id string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id)
}

func nothing(context.Context, struct{}) (string, error) { return "", nil }

func newTool(name string) mcp.Tool { return mcp.Tool{Name: name, Description: "Does nothing."} }

// changeable returns a server with tools and resources, and without prompts.
func changeable() *server.Server {
	s := &server.Server{}
	server.AddTool(s, newTool("first"), nothing)
	server.AddStatic(s, mcp.Resource{URI: "note://a", Name: "a"}, "a")
	return s
}

// Rule N1: the acknowledgement comes first, then the requested notifications with the subscription id.
func TestListenIsAcknowledgedFirst(t *testing.T) {
	s := changeable()
	w := connect(t, s)
	w.Send(listenRequest(`1`,
		`{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":false,`+
			`"resourceSubscriptions":["note://a"],"taskIds":["x"]}`))
	w.Expect(acknowledged(`1`, `{"toolsListChanged":true,"resourceSubscriptions":["note://a"]}`))
	server.AddTool(s, newTool("second"), nothing)
	w.Expect(tagged(`1`, "tools/list_changed"))
	s.RemoveResource("note://a")  // not asked for
	s.ResourceUpdated("note://b") // nor this
	s.ResourceUpdated("note://a")
	w.Expect(updated(`1`, "note://a"))
}

func TestListenIDsAreEchoedByteForByte(t *testing.T) {
	for _, id := range []string{`9007199254740993`, `"caf\u00e9\/<&>"`, `"é"`, `-0`} {
		s := changeable()
		w := connect(t, s)
		w.Send(listenRequest(id, `{"toolsListChanged":true}`))
		w.Expect(acknowledged(id, `{"toolsListChanged":true}`))
		s.RemoveTool("first")
		w.Expect(tagged(id, "tools/list_changed"))
		go s.Shutdown(context.Background())
		w.Expect(ended(id)...)
	}
}

func TestTwoListensOnOneConnectionAreSeparate(t *testing.T) {
	s := changeable()
	w := connect(t, s)
	w.Send(listenRequest(`"a"`, `{"toolsListChanged":true}`))
	w.Expect(acknowledged(`"a"`, `{"toolsListChanged":true}`))
	w.Send(listenRequest(`"b"`, `{"resourceSubscriptions":["note://a"]}`))
	w.Expect(acknowledged(`"b"`, `{"resourceSubscriptions":["note://a"]}`))
	s.RemoveTool("first")
	w.Expect(tagged(`"a"`, "tools/list_changed"))
	s.ResourceUpdated("note://a")
	w.Expect(updated(`"b"`, "note://a"))

	w.Send(cancelled(`"a"`))
	// Messages are served in order: the response to this one means that the one before is served.
	w.Send(`{"jsonrpc":"2.0","id":3,"method":"server/discover","params":{` + wiretest.Meta + `}}`)
	must.Contains(t, w.Receive(), `"id":3`)
	server.AddTool(s, newTool("first"), nothing)
	s.ResourceUpdated("note://a")
	w.Expect(updated(`"b"`, "note://a"))
	go s.Shutdown(context.Background())
	w.Expect(ended(`"b"`)...)
}

func TestInvalidFiltersAreRejected(t *testing.T) {
	uris := make([]string, 100_000)
	for i := range uris {
		uris[i] = fmt.Sprint("note://", i)
	}
	quoted := func(uris []string) string { raw, _ := json.Marshal(uris); return string(raw) }
	for name, filter := range map[string]string{
		"null":             `null`,
		"array":            `[]`,
		"string for bool":  `{"toolsListChanged":"true"}`,
		"number for bool":  `{"promptsListChanged":1}`,
		"null for bool":    `{"resourcesListChanged":null}`,
		"string for array": `{"resourceSubscriptions":"note://a"}`,
		"null for array":   `{"resourceSubscriptions":null}`,
		"array of numbers": `{"resourceSubscriptions":[1]}`,
		"array of nulls":   `{"resourceSubscriptions":[null]}`,
		"empty URI":        `{"resourceSubscriptions":[""]}`,
		"other case":       `{"ToolsListChanged":true}`,
		"1,025 URIs":       `{"resourceSubscriptions":` + quoted(uris[:1025]) + `}`,
		"100,000 URIs":     `{"resourceSubscriptions":` + quoted(uris) + `}`,
		"endless URI":      `{"resourceSubscriptions":["note://` + strings.Repeat("x", 8<<10) + `"]}`,
		"2 MiB of URIs": `{"resourceSubscriptions":` +
			quoted(slices.Repeat([]string{"note://" + strings.Repeat("x", 8000)}, 300)) + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := connect(t, changeable())
			w.Send(listenRequest(`1`, filter))
			must.CheckContains(t, w.Receive(), `"code":-32602`)
		})
	}
	t.Run("1,024 URIs are not too many", func(t *testing.T) {
		w := connect(t, changeable())
		w.Send(listenRequest(`1`, `{"resourceSubscriptions":`+quoted(uris[:1024])+`}`))
		must.CheckContains(t, w.Receive(), "acknowledged")
	})
}

// Subscriptions and requests are counted separately, each with its own limit.
func TestListensDoNotCountAsRequestsInFlight(t *testing.T) {
	s := changeable()
	s.Limits.Inflight = 1
	w := connect(t, s)
	for i := range 64 {
		w.Send(listenRequest(fmt.Sprint(i), `{"toolsListChanged":true}`))
		w.Expect(acknowledged(fmt.Sprint(i), `{"toolsListChanged":true}`))
	}
	w.Send(listenRequest(`64`, `{"toolsListChanged":true}`))
	must.Contains(t, w.Receive(), `"id":64,"error":{"code":-32603,"message":"too many subscriptions`)
	w.Send(`{"jsonrpc":"2.0","id":"call","method":"tools/call","params":{` + wiretest.Meta + `,"name":"first"}}`)
	must.Contains(t, w.Receive(), `"id":"call","result"`)
	w.Send(cancelled(`7`), listenRequest(`65`, `{"toolsListChanged":true}`))
	w.Expect(acknowledged(`65`, `{"toolsListChanged":true}`))
}

// A client that reads late receives each change once, however often it happened.
func TestManyChangesBecomeOneNotificationForASlowReader(t *testing.T) {
	s := changeable()
	w := connect(t, s)
	w.Send(listenRequest(`1`, `{"toolsListChanged":true,"resourceSubscriptions":["note://a"]}`))
	w.Expect(acknowledged(`1`, `{"toolsListChanged":true,"resourceSubscriptions":["note://a"]}`))
	for i := range 10_000 {
		s.ResourceUpdated("note://a")
		if i%2 == 0 {
			server.AddTool(s, mcp.Tool{Name: "flicker", InputSchema: json.RawMessage(`{"type":"object"}`)}, nothing)
		} else {
			s.RemoveTool("flicker")
		}
	}
	w.Send(cancelled(`1`), `{"jsonrpc":"2.0","id":2,"method":"server/discover","params":{`+wiretest.Meta+`}}`)
	n := 0
	for !strings.Contains(w.Receive(), `"id":2`) {
		n++
	}
	// The connection holds 64 messages. One more is being written, one waits for each resource and list, and the end of
	// the subscription follows.
	must.CheckThat(t, n <= 64+4, "20,000 changes were %d notifications", n)
}

func TestTheEndOfTheInputEndsListens(t *testing.T) {
	s := changeable()
	s.Limits.Grace = time.Hour
	in, input := io.Pipe()
	output, out := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- s.ServeConn(context.Background(), transport.Stream(struct {
			io.Reader
			io.WriteCloser
		}{in, out}, transport.StreamOptions{}))
	}()
	fmt.Fprintln(input, listenRequest(`1`, `{"toolsListChanged":true}`))
	lines := bufio.NewScanner(output)
	for i, want := range append([]string{acknowledged(`1`, `{"toolsListChanged":true}`)}, ended(`1`)...) {
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("received %s, want %s", lines.Text(), want)
		}
		if i == 0 {
			input.Close()
		}
	}
	must.Check(t, <-served)
}

func TestSessionsReceiveOnlyTheirSubscriptions(t *testing.T) {
	for _, r := range mcp.Revisions() {
		if r.Modern() {
			continue
		}
		t.Run(string(r), func(t *testing.T) {
			s := changeable()
			w := connect(t, s)
			expect := func(want ...string) {
				t.Helper()
				w.Expect(want...)
				for _, m := range want {
					method := map[bool]string{true: "resources/subscribe", false: ""}[strings.Contains(m, `"result"`)]
					must.Check(t, spec.ValidateMessage(r, []byte(m), method))
				}
			}
			w.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":%q,`+
				`"clientInfo":{"name":"c","version":"1"},"capabilities":{}}}`, r))
			m := w.Receive()
			must.That(t, strings.Contains(m, `"listChanged":true`) && strings.Contains(m, `"subscribe":true`),
				"capabilities: %s", m)
			s.RemoveTool("first") // before the end of the handshake
			w.Send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":2,"method":"ping"}`)
			expect(`{"jsonrpc":"2.0","id":2,"result":{}}`)

			server.AddTool(s, newTool("first"), nothing)
			expect(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			s.ResourceUpdated("note://a") // without a subscription
			w.Send(`{"jsonrpc":"2.0","id":3,"method":"resources/subscribe","params":{"uri":"note://a"}}`)
			expect(`{"jsonrpc":"2.0","id":3,"result":{}}`)
			s.ResourceUpdated("note://b")
			s.ResourceUpdated("note://a")
			expect(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"note://a"}}`)
			w.Send(`{"jsonrpc":"2.0","id":4,"method":"resources/unsubscribe","params":{"uri":"note://a"}}`)
			expect(`{"jsonrpc":"2.0","id":4,"result":{}}`)
			s.ResourceUpdated("note://a")
			s.RemoveResource("note://a")
			expect(`{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}`)
			w.Send(`{"jsonrpc":"2.0","id":5,"method":"resources/subscribe","params":{"uri":1}}`)
			must.CheckContains(t, w.Receive(), `"code":-32602`)
		})
	}
}

func TestSubscriptionsOfASessionAreBounded(t *testing.T) {
	s := changeable()
	w := connect(t, s)
	w.Send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
		`"clientInfo":{"name":"c","version":"1"},"capabilities":{}}}`)
	w.Receive()
	w.Send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for i := range 1025 {
		w.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/subscribe","params":{"uri":"note://%d"}}`, i+1,
			i))
		m := w.Receive()
		must.Equal(t, strings.Contains(m, `"result":{}`), i < 1024, i+1, m)
	}
}

var listenHeader = []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen"}

func TestListenWithoutAnEventStreamIsRejected(t *testing.T) {
	endpoint := httptest.NewServer(changeable())
	defer endpoint.Close()
	resp := wiretest.Do(t, "POST", endpoint.URL, listenRequest(`1`, `{"toolsListChanged":true}`),
		append(listenHeader, "Accept", "application/json")...)
	text := wiretest.Text(t, resp)
	must.CheckThat(t, resp.StatusCode == http.StatusBadRequest && strings.Contains(text, `"code":-32600`),
		"%s %s", resp.Status, text)
}

// Rules T11, T12: the standalone stream of a session carries notifications of changes, and no responses.
// A newer stream delivers what the older one has not.
func TestChangesGoToOneStreamOfASession(t *testing.T) {
	s := changeable()
	waiting, goOn := make(chan struct{}), make(chan struct{})
	server.AddTool(s, newTool("wait"), func(ctx context.Context, _ struct{}) (string, error) {
		close(waiting)
		_ = server.Progress(ctx, 1, 2, "")
		<-goOn
		return "", nil
	})
	endpoint := httptest.NewServer(s)
	defer endpoint.Close()
	session := wiretest.Session(t, endpoint.URL, "2025-11-25")
	get := func() *wiretest.Events {
		return wiretest.Stream(t, wiretest.Do(t, "GET", endpoint.URL, "",
			append(session, "Accept", "text/event-stream")...))
	}
	older := get()
	called := make(chan *wiretest.Events, 1)
	go func() {
		called <- wiretest.ReadEvents(wiretest.Do(t, "POST", endpoint.URL,
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"wait","_meta":{"progressToken":1}}}`,
			session...).Body)
	}()
	<-waiting
	s.RemoveTool("first")
	const changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	must.Equal(t, older.Data(), changed)
	newer := get()
	must.CheckEqual(t, older.Data(), "")
	server.AddTool(s, newTool("first"), nothing)
	must.Equal(t, newer.Data(), changed)
	close(goOn)
	for events := <-called; ; {
		m := events.Data()
		if m == "" {
			break
		}
		must.CheckThat(t, !strings.Contains(m, "list_changed"), "the response to a call has %s", m)
	}
	// Subscriptions outlive the stream.
	wiretest.Do(t, "POST", endpoint.URL,
		`{"jsonrpc":"2.0","id":3,"method":"resources/subscribe","params":{"uri":"note://a"}}`, session...)
	last := get()
	newer.Ends(t)
	s.ResourceUpdated("note://a")
	must.CheckEqual(t, last.Data(), `{"jsonrpc":"2.0","method":"notifications/resources/updated",`+
		`"params":{"uri":"note://a"}}`, "the last stream")
	must.Check(t, s.Shutdown(t.Context()))
}

// unreliableBus fails while it is down.
type unreliableBus struct {
	store.Store
	down atomic.Bool
}

var errBusDown = errors.New("the bus is down")

func (b *unreliableBus) Publish(ctx context.Context, topic string, message []byte) error {
	if b.down.Load() {
		return errBusDown
	}
	return b.Store.Publish(ctx, topic, message)
}

func (b *unreliableBus) Subscribe(ctx context.Context, topic string, queue int) (*store.Subscription, error) {
	if b.down.Load() {
		return nil, errBusDown
	}
	return b.Store.Subscribe(ctx, topic, queue)
}

const listenToAll = `{"toolsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["note://a"]}`

// replicasWithSubscriber returns two replicas, and a client that has subscribed to changes at the second.
func replicasWithSubscriber(t *testing.T, shared store.Store,
	keys ...[]byte) (first, second *server.Server, w *wiretest.Peer) {
	newReplica := func() *server.Server {
		s := changeable()
		s.Store, s.Logger = shared, slog.New(slog.DiscardHandler)
		if len(keys) > 0 { // each replica has its own
			s.Keys, keys = keys[:1], keys[1:]
		}
		t.Cleanup(func() { s.Shutdown(context.Background()) })
		return s
	}
	first, second = newReplica(), newReplica()
	must.Do(t, first.Check()) // it serves from now on
	w = connect(t, second)
	w.Send(listenRequest(`1`, listenToAll))
	w.Expect(acknowledged(`1`, listenToAll))
	synctest.Wait()
	return first, second, w
}

func TestChangesAtOneReplicaReachTheClientsOfAnother(t *testing.T) {
	root := must.Get(os.OpenRoot(t.TempDir()))(t)
	defer root.Close()
	synctest.Test(t, func(t *testing.T) {
		first, second, w := replicasWithSubscriber(t, store.NewMemory())
		first.ResourceUpdated("note://b") // not subscribed
		first.ResourceUpdated("note://a")
		w.Expect(updated(`1`, "note://a"))
		server.AddTool(first, newTool("new"), nothing)
		w.Expect(tagged(`1`, "tools/list_changed"))
		first.RemoveResource("note://a")
		w.Expect(tagged(`1`, "resources/list_changed"))
		files := server.AddFS(first, "note://", root, server.FSOptions{})
		w.Expect(tagged(`1`, "resources/list_changed"))
		files.ListChanged()
		w.Expect(tagged(`1`, "resources/list_changed"))
		files.Updated("a")
		w.Expect(updated(`1`, "note://a"))
		first.CatalogsChanged()
		w.Expect(tagged(`1`, "tools/list_changed"), tagged(`1`, "resources/list_changed"))
		first.CatalogsChanged(principal.Local)
		w.Expect(tagged(`1`, "tools/list_changed"), tagged(`1`, "resources/list_changed"))

		onlyAda := server.VisibleTo(func(who principal.Principal, _ string) bool { return who != principal.Local })
		server.AddTool(first, newTool("hidden"), nothing, onlyAda)
		server.AddTool(second, newTool("hidden2"), nothing, onlyAda)
		server.AddTool(first, newTool("hidden2"), nothing) // the second replica knows who can see it
		time.Sleep(time.Second)
		second.ResourceUpdated("note://a")
		w.Expect(updated(`1`, "note://a")) // and nothing before it
	})
}

// Replicas with different keys cannot read announcements, some are too long, and others are lost. Any change is
// possible then, so the clients are notified of all.
func TestAnnouncementsThatDoNotArriveBecomeAnyChange(t *testing.T) {
	other := make([]byte, 32)
	other[0] = 1
	for name, c := range map[string]struct {
		keys   [][]byte
		change func(s *server.Server)
	}{
		"unreadable": {[][]byte{make([]byte, 32), other},
			func(s *server.Server) { s.ResourceUpdated("note://b") }}, // not subscribed
		"too long": {nil, func(s *server.Server) {
			s.ResourceUpdated("note://" + strings.Repeat("x", storecheck.MaxMessage))
		}},
		"too many": {nil, func(s *server.Server) {
			for i := range 2000 { // more than can wait to be published
				s.ResourceUpdated("note://" + strings.Repeat("x", i))
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bus := &unreliableBus{Store: store.NewMemory()}
				first, _, w := replicasWithSubscriber(t, bus, c.keys...)
				bus.down.Store(name == "too many")
				c.change(first)
				bus.down.Store(false)
				w.Expect(tagged(`1`, "tools/list_changed"), tagged(`1`, "resources/list_changed"),
					updated(`1`, "note://a"))
			})
		})
	}
}

func TestAnnouncementsAreRepeatedUntilTheBusIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := &unreliableBus{Store: store.NewMemory()}
		first, _, w := replicasWithSubscriber(t, bus)
		bus.down.Store(true)
		first.ResourceUpdated("note://a")
		time.Sleep(time.Minute)
		bus.down.Store(false)
		w.Expect(updated(`1`, "note://a"))
	})
}

func TestAddingToolsWhileTheBusIsDownDoesNotBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := &unreliableBus{Store: store.NewMemory()}
		bus.down.Store(true)
		s := changeable()
		s.Store, s.Logger = bus, slog.New(slog.DiscardHandler)
		defer s.Shutdown(t.Context())
		w := connect(t, s)
		w.Send(listenRequest(`1`, `{"toolsListChanged":true}`))
		w.Expect(acknowledged(`1`, `{"toolsListChanged":true}`))
		started := time.Now()
		server.AddTool(s, mcp.Tool{Name: "new"}, nothing)
		w.Expect(tagged(`1`, "tools/list_changed"))
		waited := time.Since(started)
		must.CheckThat(t, waited <= 0, "waited %v", waited)
	})
}

func TestAServerThatServesReceivesTheAnnouncementsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := newHookedStore(func(_ context.Context, op, _ string, _ []byte) error {
			if op == "subscribe" {
				time.Sleep(time.Second)
			}
			return nil
		})
		first, second := changeable(), changeable()
		first.Store, second.Store = bus, bus
		defer first.Shutdown(t.Context())
		defer second.Shutdown(t.Context())
		must.Do(t, first.Check())
		w := connect(t, second)
		w.Send(listenRequest(`1`, listenToAll))
		w.Expect(acknowledged(`1`, listenToAll))
		first.ResourceUpdated("note://a")
		w.Expect(updated(`1`, "note://a"))
	})
}
