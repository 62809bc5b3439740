package httpserver

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/serve/legacy"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// A client can begin its session and subscribe as soon as it knows the endpoint, so the
// server subscribes to changes before it sends the endpoint.
func TestPairSubscribesBeforeItSendsTheEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := sessionServer(t, store.NewMemory())
		client := newReader()
		sent, subscribed := false, make(chan struct{})
		s.Legacy.Describe = func(principal.Principal) (r mcp.InitializeResult) { // called when the server subscribes
			synctest.Wait()
			sent = strings.Contains(client.text(), "event: endpoint")
			close(subscribed)
			return r
		}
		ctx, leave := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.openPair(client, httptest.NewRequestWithContext(ctx, http.MethodGet, "/mcp", nil),
				&response{stream: eventStream{w: client}})
		}()
		<-subscribed
		must.CheckThat(t, !sent, "the endpoint was sent before the subscription")
		synctest.Wait()
		must.CheckContains(t, client.text(), "event: endpoint")
		leave()
		<-done
	})
}

func newPair(id, address string, who principal.Principal) *pair {
	return &pair{id: id, address: address, who: who, drain: make(chan struct{}),
		session: (&legacy.Server{Peers: &rpc.PeerCache{}}).NewSession(who)}
}

func TestShutdownRejectsNewPairs(t *testing.T) {
	var p pairs
	early := newPair("1", "a", principal.Anonymous)
	must.That(t, p.add(early), "rejected")
	p.beginDrain()
	<-early.drain
	p.beginDrain()
	must.CheckThat(t, !p.add(newPair("2", "a", principal.Anonymous)), "a pair was added after beginDrain")
}

func TestPairsPerAddressAreLimited(t *testing.T) {
	var p pairs
	var last *pair
	for i := range maxPairsPerAddress {
		last = newPair(string(rune(i)), "a", principal.Anonymous)
		must.That(t, p.add(last), "pair %d is rejected", i)
	}
	must.CheckThat(t, !p.add(newPair("x", "a", principal.Anonymous)), "accepted above the limit")
	must.CheckThat(t, p.add(newPair("y", "b", principal.Anonymous)), "another address is rejected")
	p.remove(last)
	must.CheckThat(t, p.add(newPair("x", "a", principal.Anonymous)), "rejected after a pair has ended")
}

func TestPathOfReturnsThePathThatTheClientSent(t *testing.T) {
	for uri, want := range map[string]string{
		"/mcp?x=1": "/mcp", "/a%2Fb": "/a%2Fb", "//evil.example/x": "/evil.example/x", "///x": "/x",
		"http://localhost/mcp": "/inner", "": "/inner", "*": "/inner",
		`/\evil.example/x`: "/%5Cevil.example/x", `//\/evil.example`: "/%5C/evil.example",
		"/a\r\nevent: x": "/a%0D%0Aevent:%20x", "/a#b": "/a%23b", "/é": "/%C3%A9", "/a%5cb": "/a%5cb",
	} {
		r := httptest.NewRequest("GET", "/inner", nil)
		r.RequestURI = uri
		must.CheckEqual(t, pathOf(r), want, uri)
	}
}

// openedPair opens a pair whose stream w takes. Post sends a message, and reports in the
// returned channel when it is answered. Ended is closed when the pair has ended.
func openedPair(t *testing.T, w http.ResponseWriter,
	middleware ...call.Middleware) (post func(body string) (status <-chan int), ended <-chan struct{}) {
	t.Helper()
	s, _ := sessionServer(t, store.NewMemory())
	s.Legacy.Engine = rpc.NewEngine(rpc.Handlers{}, slog.New(slog.DiscardHandler), middleware...)
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.openPair(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/mcp", nil),
			&response{stream: eventStream{w: w}})
	}()
	t.Cleanup(func() {
		leave()
		<-done
	})
	synctest.Wait()
	s.pairs.mu.Lock()
	defer s.pairs.mu.Unlock()
	for id := range s.pairs.byID {
		return func(body string) <-chan int {
			status := make(chan int, 1)
			m := must.Get(jsonrpc.Parse([]byte(body), jsonrpc.Limits{}))(t)
			go func() {
				answer := httptest.NewRecorder()
				s.postToPair(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", nil), id, &m)
				status <- answer.Code
			}()
			synctest.Wait()
			return status
		}, done
	}
	t.Fatal("no pair is open")
	return nil, nil
}

const initializePair = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05",` +
	`"clientInfo":{"name":"c","version":"1"},"capabilities":{}}}`

func TestAPairEndsWhileItsHandshakeIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		post, ended := openedPair(t, newReader(), func(call.Handler) call.Handler {
			return func(ctx context.Context, _ *call.Call) (any, error) {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}
		})
		first, second := post(initializePair), post(initializePair)
		<-ended // the time-out of the handshake; keep-alives are due before it
		if a, b := <-first, <-second; a != http.StatusAccepted || b != http.StatusNotFound {
			t.Errorf("status %d for the request that was served and %d for the one that waited", a, b)
		}
	})
}
