package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// Rule T5: the first event names the endpoint; responses to messages posted there come on the stream.
func TestPairBeginsWithItsEndpoint(t *testing.T) {
	e := newEndpoint(t)
	p := e.pair("/")
	if !strings.HasPrefix(p.endpoint, "/?sessionId=") || len(p.endpoint) < len("/?sessionId=")+22 {
		t.Errorf("endpoint %q", p.endpoint)
	}
	post := func(body string, status int) {
		t.Helper()
		if a := e.do("POST", p.endpoint, body); a.status != status || status == 202 && a.body != "" {
			t.Errorf("%s: %s", body, a)
		}
	}
	post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, 202)
	if data := p.Data(); !strings.Contains(data, `"code":-32600`) || !strings.Contains(data, `"id":1`) {
		t.Errorf("before the handshake: %s", data)
	}
	post(fmt.Sprintf(wiretest.Initialize, "2024-11-05"), 202)
	must.CheckContains(t, p.Data(), `"protocolVersion":"2024-11-05"`)
	post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, 202)
	post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"count","arguments":{"to":2},`+
		`"_meta":{"progressToken":"p"}}}`, 202)
	for _, want := range []string{`"progress":1`, `"progress":2`, `"text":"done"`} {
		must.CheckContains(t, p.Data(), want)
	}
	post(`{"jsonrpc":"2.0","id":3,"method":"ping"`, 400)
	post(`[{"jsonrpc":"2.0","id":3,"method":"ping"}]`, 400)
	post(`{"jsonrpc":"2.0","id":99,"result":{}}`, 202)
	if a := e.do("POST", "/?sessionId=AAAAAAAAAAAAAAAAAAAAAA",
		`{"jsonrpc":"2.0","id":3,"method":"ping"}`); a.status != 404 {
		t.Errorf("another session's: %s", a)
	}
	post(`{"jsonrpc":"2.0","id":4,"method":"ping"}`, 202)
	must.CheckEqual(t, p.Data(), `{"jsonrpc":"2.0","id":4,"result":{}}`)
}

// The end of the stream ends the session and its requests in flight.
// Rule T5.
func TestPairEndsWithItsStream(t *testing.T) {
	e := newEndpoint(t)
	p := e.ready()
	e.do("POST", p.endpoint, fmt.Sprintf(waitCall, 2))
	w := <-e.waiting
	p.close()
	<-w.ctx.Done()
	<-w.ended
	eventually(t, func() bool { return e.do("POST", p.endpoint, pingBody).status == 404 })
}

// A stream without a handshake ends.
func TestAPairWithoutAHandshakeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := httpServer()
		begun := time.Now()
		rec := inBubble(s, "GET", "", "Accept", "text/event-stream")
		if took := time.Since(begun); took != 30*time.Second || !strings.Contains(rec.Body.String(), "endpoint") {
			t.Errorf("after %v: %s", took, rec.Body)
		}
	})
}

// A GET that names no session opens the HTTP+SSE pair, also if its client sends the version
// header with its requests.
func TestAGETWithoutASessionOpensThePairWithAnyLegacyVersion(t *testing.T) {
	e := newEndpoint(t)
	for _, r := range mcp.Revisions() {
		if r.Modern() {
			continue
		}
		version := []string{"MCP-Protocol-Version", string(r)}
		stream := wiretest.Stream(t, e.open(t.Context(), "GET", "/", "",
			append(version, "Accept", "text/event-stream")...))
		first, _ := stream.Next()
		if first.Name != "endpoint" {
			t.Errorf("%s: the stream begins with %+v", r, first)
			continue
		}
		if a := e.do("POST", first.Data, fmt.Sprintf(wiretest.Initialize, r),
			version...); a.status != http.StatusAccepted {
			t.Errorf("%s: %s", r, a)
		}
		must.CheckContains(t, stream.Data(), `"protocolVersion":"`+string(r)+`"`, r)
	}
}

// On the pair, the status of a POST request says that the request is accepted, so that a
// cancellation finds it, and that another request with its id is rejected.
func TestRequestOnThePairIsAcceptedBeforeItsStatus(t *testing.T) {
	e := newEndpoint(t)
	p := e.ready()
	post := func(format string, id int) { e.do("POST", p.endpoint, fmt.Sprintf(format, id)) }
	for id := range 40 {
		post(waitCall, id+1)
		post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id+1)
		w := <-e.waiting
		select {
		case <-w.ctx.Done():
		case <-time.After(wiretest.Patience):
			t.Fatal("the call was not cancelled")
		}
		must.CheckIs(t, context.Cause(w.ctx), call.ErrCancelled)
		post(waitCall, id+1000)
		post(waitCall, id+1000)
		must.CheckContains(t, p.Data(), `"code":-32600`)
		close((<-e.waiting).release)
		must.CheckContains(t, p.Data(), "waited")
	}
}

// 2024-11-05, basic/transports, HTTP with SSE: a client posts its messages to an endpoint, which any replica
// can serve.
func TestMessagesOfAPairReachTheReplicaWithItsEventStream(t *testing.T) {
	for _, keys := range [][][]byte{nil, {make([]byte, 32)}} {
		synctest.Test(t, func(t *testing.T) {
			f := newBubbleFleet(t, 3, withNote, func(s *server.Server) {
				s.Keys = keys
				server.AddTool(s, mcp.Tool{Name: "roots"}, func(ctx context.Context, _ struct{}) (string, error) {
					roots, err := server.Roots(ctx)
					return fmt.Sprintf("%d roots", len(roots)), err
				})
			})
			x, endpoint := openPair(t, f.servers[0])
			f.accept(1, endpoint, fmt.Sprintf(elicitingClient, "2024-11-05"), wiretest.Initialized)
			f.accept(2, endpoint, `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"note://a"}}`,
				`{"jsonrpc":"2.0","id":"long","method":"tools/call","params":{"name":"echo","arguments":{"text":"`+
					strings.Repeat("x", 100_000)+`"}}}`,
				`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"roots","arguments":{}}}`)
			got := x.messages()
			var question struct{ ID json.RawMessage }
			if err := json.Unmarshal([]byte(got[len(got)-1]), &question); err != nil || len(got) != 5 ||
				!strings.Contains(got[1], `"protocolVersion":"2024-11-05"`) || len(got[3]) < 100_000 {
				t.Fatalf("%.300q %v", got, err)
			}
			f.accept(1, endpoint, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"roots":[]}}`, question.ID),
				strings.Replace(stepCall, `"id":1`, `"id":3`, 1),
				`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
			f.servers[2].ResourceUpdated("note://a")
			time.Sleep(coalescing)
			if got = x.messages()[5:]; len(got) != 2 || !strings.Contains(got[0], `"text":"0 roots"`) ||
				!strings.Contains(got[1], "note://a") {
				t.Errorf("%.300q", got)
			}
			close(f.steps) // otherwise unused
		})
	}
}

func TestMessagesOfAPairThatHasEndedAreRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBubbleFleet(t, 3)
		if status, text := f.post(1, "/?sessionId=unknown", pingBody); status != http.StatusNotFound ||
			!strings.Contains(text, "session not found: open") {
			t.Errorf("an unknown pair: %d %s", status, text)
		}
		x, endpoint := openPair(t, f.servers[0])
		f.accept(1, endpoint, fmt.Sprintf(wiretest.Initialize, "2024-11-05"), wiretest.Initialized)
		time.Sleep(time.Hour)
		f.accept(1, endpoint, pingBody)
		x.leave()
		synctest.Wait()
		for i := range f.servers {
			if status, text := f.post(i, endpoint, pingBody); status != http.StatusNotFound {
				t.Errorf("after the end of the event stream: %d %s", status, text)
			}
		}
		x, endpoint = openPair(t, f.servers[0])
		f.accept(1, endpoint, fmt.Sprintf(wiretest.Initialize, "2024-11-05"), wiretest.Initialized)
		f.stores[0].cut.Store(true)
		time.Sleep(20 * time.Second)
		if status, text := f.post(1, endpoint, pingBody); status != http.StatusNotFound ||
			!strings.Contains(text, "the server process with its event stream has ended: open a new event stream") {
			t.Errorf("after the end of the replica: %d %s", status, text)
		}
		f.stores[1].cut.Store(true)
		f.stores[0].cut.Store(false)
		time.Sleep(20 * time.Second)
		if status, text := f.post(1, endpoint, pingBody); status != http.StatusServiceUnavailable ||
			!strings.Contains(text, "send it again") {
			t.Errorf("without the Bus: %d %s", status, text)
		}
		f.stores[1].cut.Store(false)
		x.leave()
	})
}

// A client that sends notifications faster than their handler returns has a limited number of handlers.
func TestHandlersOfNotificationsOfAPairAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running atomic.Int64
		f := newBubbleFleet(t, 2, func(s *server.Server) {
			s.Limits.Inflight = 3
			s.Middleware = wiretest.OnRootsChanged(func(ctx context.Context) {
				running.Add(1)
				<-ctx.Done()
			})
		})
		x, endpoint := openPair(t, f.servers[0])
		f.accept(1, endpoint, fmt.Sprintf(elicitingClient, "2024-11-05"), wiretest.Initialized)
		for range 10 {
			f.accept(1, endpoint, `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
		}
		must.CheckEqual(t, running.Load(), 3)
		x.leave()
	})
}

// A message keeps its caller on the way to another replica, but not the token.
func TestMessagesOfAPairKeepTheirCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failed atomic.Int64 // calls without the scope that the middleware has seen
		f := newBubbleFleet(t, 2, func(s *server.Server) {
			s.Middleware = append(s.Middleware, func(next call.Handler) call.Handler {
				return func(ctx context.Context, c *call.Call) (any, error) {
					result, err := next(ctx, c)
					var missing *auth.ScopeError
					if c.Method() == mcp.MethodCallTool && errors.As(err, &missing) {
						failed.Add(1)
					}
					return result, err
				}
			})
			s.Auth = &auth.ProtectedResource{
				URI: "http://localhost/", Issuers: []string{"https://as.example"},
				Verifier: auth.VerifierFunc(func(_ context.Context, token string) (*auth.Info, error) {
					name, scope, _ := strings.Cut(token, ".")
					who, err := principal.New("https://as.example", name, "")
					return &auth.Info{Principal: who, Scopes: []string{scope}, Audience: []string{"http://localhost/"},
						Expiry: time.Now().Add(time.Hour), Claims: json.RawMessage(`{"team":"` + scope + `"}`)}, err
				}),
			}
			server.AddTool(s, mcp.Tool{Name: "who"}, func(ctx context.Context, _ struct{}) (string, error) {
				team, _ := auth.FromContext(ctx).Claim("team")
				return fmt.Sprintf("%s of %s", auth.FromContext(ctx).Principal.Subject(), team), nil
			}, server.RequireScopes("read"))
		})
		as := func(token string) []string { return []string{"Authorization", "Bearer " + token} }
		x, endpoint := openPair(t, f.servers[0], as("ada.read")...)
		for _, body := range []string{fmt.Sprintf(wiretest.Initialize, "2024-11-05"), wiretest.Initialized,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"who"}}`} {
			if status, text := f.post(1, endpoint, body, as("ada.read")...); status != http.StatusAccepted {
				t.Fatal(status, text)
			}
		}
		if got := x.messages(); len(got) != 3 || !strings.Contains(got[2], `ada of \"read\"`) {
			t.Errorf("%q", got)
		}
		again := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"who"}}`
		for replica := range 2 {
			if status, _ := f.post(replica, endpoint, again, as("ada.write")...); status != http.StatusForbidden {
				t.Errorf("without the scope: %d", status)
			}
			must.CheckEqual(t, failed.Load(), int64(replica+1), replica)
		}
		if status, text := f.post(1, endpoint, again, as("eve.read")...); status != http.StatusNotFound ||
			strings.Contains(text, "process") {
			t.Errorf("another principal: %d %s", status, text)
		}
		if got := x.messages(); len(got) != 3 {
			t.Errorf("%q", got)
		}
		x.leave()
	})
}
