package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/syncbuffer"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// A request over the limit gets the HTTP status that asks for a retry, however many arrive at the same moment, and
// not an error in a response. The limit is logged.
func TestConcurrentRequestsOverTheLimitAreToldToRetry(t *testing.T) {
	const most, all = 2, 40
	var log syncbuffer.Buffer
	e := newEndpoint(t, func(s *server.Server) {
		s.Limits.Inflight, s.Limits.InflightPerAddress = most, most
		s.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	session, pair := e.session("2025-03-26"), e.ready()
	body, header := wiretest.Modern("1", mcp.MethodCallTool, `"name":"wait"`)
	for name, send := range map[string]func(id int) answer{
		"stateless": func(int) answer { return e.do("POST", "/", body, header...) },
		"session":   func(id int) answer { return e.do("POST", "/", fmt.Sprintf(waitCall, id), session...) },
		"batch": func(id int) answer {
			return e.do("POST", "/", "["+fmt.Sprintf(waitCall, id)+","+fmt.Sprintf(waitCall, id+all)+"]", session...)
		},
		// accepted at once
		"pair": func(id int) answer { return e.do("POST", pair.endpoint, fmt.Sprintf(waitCall, id)) },
	} {
		t.Run(name, func(t *testing.T) {
			answers := make(chan answer, all)
			begin := make(chan struct{})
			var sending sync.WaitGroup
			for id := range all {
				sending.Go(func() {
					<-begin
					answers <- send(id)
				})
			}
			close(begin)
			var blocked []waiting
			for range most {
				blocked = append(blocked, <-e.waiting)
			}
			served, accepted := most, 0
			if name == "batch" {
				served = 1
			}
			for rejected := 0; rejected < all-served; {
				if a := <-answers; a.status < 300 {
					accepted++
				} else {
					wantOverload(t, name, a, http.StatusTooManyRequests, "requests in flight")
					rejected++
				}
			}
			must.CheckContains(t, log.String(), "overload: ")
			must.CheckContains(t, log.String(), `limit="requests in flight"`)
			for _, w := range blocked {
				close(w.release)
			}
			for ; accepted < served; accepted++ {
				// a 202 of a pair may come after the rejections
				a := <-answers
				must.CheckThat(t, (a.status == 200 || a.status == 202) && !strings.Contains(a.body, "error"), "%s", a)
			}
			sending.Wait()
			if name == "pair" { // then it has room again
				pair.Data()
				pair.Data()
			}
		})
	}
}

// One caller cannot use up the limit of others: modern requests are counted for each address or
// principal, and subscriptions separately.
func TestModernRequestsAreCountedByPrincipal(t *testing.T) {
	for name, with := range map[string]struct {
		limits server.Limits
		auth   *auth.ProtectedResource
		mine   []string
		other  []string
	}{
		"addresses": {
			limits: server.Limits{InflightPerAddress: 2, InflightPerPrincipal: 1},
			mine:   []string{"RemoteAddr", "192.0.2.1:1234"}, other: []string{"RemoteAddr", "192.0.2.2:1234"},
		},
		"principals": {
			limits: server.Limits{InflightPerAddress: 1, InflightPerPrincipal: 2},
			auth: &auth.ProtectedResource{
				URI:      "http://localhost",
				Issuers:  []string{"https://issuer.example"},
				Verifier: auth.VerifierFunc(principalOfToken),
			},
			mine: []string{"Authorization", "Bearer me"}, other: []string{"Authorization", "Bearer you"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := httpServer()
			calls := addWait(s)
			s.Limits, s.Auth = with.limits, with.auth
			send := func(method, params string, who []string) *httptest.ResponseRecorder {
				body, header := wiretest.Modern("1", method, params)
				return inBubble(s, http.MethodPost, body,
					append(append(header, "Accept", "application/json, text/event-stream"), who...)...)
			}
			var serving sync.WaitGroup
			var blocked []waiting
			for range 2 {
				serving.Go(func() {
					rec := send(mcp.MethodCallTool, `"name":"wait"`, with.mine)
					must.CheckThat(t, rec.Code == 200 && strings.Contains(rec.Body.String(), "waited"),
						"%d %s", rec.Code, rec.Body)
				})
				blocked = append(blocked, <-calls)
			}
			rec := send(mcp.MethodListTools, "", with.mine)
			if rec.Code != 429 || rec.Header().Get("Retry-After") == "" ||
				!strings.Contains(rec.Body.String(), `"id":1`) {
				t.Errorf("one more: %d %v %s", rec.Code, rec.Header(), rec.Body)
			}
			if rec := send(mcp.MethodListTools, "", with.other); rec.Code != 200 {
				t.Errorf("another caller: %d %s", rec.Code, rec.Body)
			}
			for _, w := range blocked {
				close(w.release)
			}
			serving.Wait()
			if rec := send(mcp.MethodListTools, "", with.mine); rec.Code != 200 {
				t.Errorf("afterwards: %d %s", rec.Code, rec.Body)
			}
		})
	}
}

// checkOverload checks the JSON-RPC error of a request that a limit has rejected.
func checkOverload(t *testing.T, name, response, limit string) {
	t.Helper()
	var m struct {
		Error struct {
			Code    int64
			Message string
			Data    struct{ RetryAfterMs int64 }
		}
	}
	if err := json.Unmarshal([]byte(response), &m); err != nil || m.Error.Code != -32603 ||
		m.Error.Data.RetryAfterMs <= 0 || !strings.HasPrefix(m.Error.Message, "too many "+limit) {
		t.Errorf("%s: %s, want too many %s with retryAfterMs", name, response, limit)
	}
}

// wantOverload checks the HTTP response to a request that a limit has rejected.
func wantOverload(t *testing.T, name string, a answer, status int, limit string) {
	t.Helper()
	seconds, err := strconv.Atoi(a.header.Get("Retry-After"))
	must.CheckThat(t, a.status == status && err == nil && seconds >= 1, "%s: %s, want status %d", name, a, status)
	checkOverload(t, name, a.body, limit)
}

// Each limit rejects requests with the same error on every wire. Over HTTP the status is 429 or 503 with Retry-After.
// The limit is logged.
func TestOverloadHasOneErrorOnEveryWire(t *testing.T) {
	const echo = `"name":"echo","arguments":{"text":"x"}`
	var log bytes.Buffer
	limited := func(l server.Limits) func() *server.Server {
		return func() *server.Server {
			s := httpServer()
			s.Limits, s.Logger = l, slog.New(slog.NewTextHandler(&log, nil))
			return s
		}
	}
	logged := func(t *testing.T, limit string) {
		t.Helper()
		must.CheckContains(t, log.String(), "overload: ", limit, &log)
		must.CheckContains(t, log.String(), "limit="+limit, limit, &log)
		log.Reset()
	}
	t.Run("rate of calls", func(t *testing.T) {
		few := limited(server.Limits{CallsPerSecond: 0.001})
		onEverySurface(t, few, func(t *testing.T, s surface) {
			s.ask(1, mcp.MethodCallTool, echo)
			checkOverload(t, "call", s.ask(2, mcp.MethodCallTool, echo), "calls")
		})
		logged(t, "calls")
		e := endpointOf(t, few())
		session, call := e.session("2025-11-25"), message(mcp.V20251125, 1, mcp.MethodCallTool, echo)
		e.do("POST", "/", call, session...)
		wantOverload(t, "session", e.do("POST", "/", call, session...), http.StatusTooManyRequests, "calls")
		e.modern("1", mcp.MethodCallTool, echo)
		wantOverload(t, "stateless", e.modern("1", mcp.MethodCallTool, echo), http.StatusTooManyRequests, "calls")
	})
	t.Run("rate of lists", func(t *testing.T) {
		few := limited(server.Limits{ListsPerSecond: 0.001})
		onEverySurface(t, few, func(t *testing.T, s surface) {
			s.ask(1, mcp.MethodListTools, "")
			checkOverload(t, "list", s.ask(2, mcp.MethodListTools, ""), "requests for lists")
			response := s.ask(3, mcp.MethodCallTool, echo)
			must.CheckThat(t, !strings.Contains(response, `"error"`), "a call counts as a list: %s", response)
		})
		e := endpointOf(t, few())
		e.modern("1", mcp.MethodListResources, "")
		wantOverload(t, "other list", e.modern("1", mcp.MethodDiscover, ""), http.StatusTooManyRequests,
			"requests for lists")
	})
	t.Run("sessions", func(t *testing.T) {
		e := endpointOf(t, limited(server.Limits{SessionsPerAddress: 1})())
		last := e.session("2025-11-25")
		// A session with a stream is not displaced.
		stream := e.open(t.Context(), "GET", "/", "", append(last, "Accept", "text/event-stream")...)
		initialize := fmt.Sprintf(wiretest.Initialize, "2025-11-25")
		wantOverload(t, "session", e.do("POST", "/", initialize), http.StatusServiceUnavailable, "sessions")
		logged(t, "sessions")
		stream.Body.Close()
		e.do("DELETE", "/", "", last...)
		e.session("2025-11-25")
	})
	t.Run("subscriptions", func(t *testing.T) {
		l := connectLine(t, limited(server.Limits{})())
		for i := range 64 {
			l.Ask(message(mcp.V20260728, i+1, mcp.MethodListen, `"notifications":{}`))
		}
		checkOverload(t, "stream", l.Ask(message(mcp.V20260728, 65, mcp.MethodListen, `"notifications":{}`)),
			"subscriptions")
		logged(t, "subscriptions")
	})
}

// A handler can reject calls because of a limit of its own.
func TestAHandlerReportsOverload(t *testing.T) {
	limited := func() *server.Server {
		s := httpServer()
		server.AddResource(s, mcp.Resource{URI: "test:r", Name: "r"}, func(context.Context) (string, error) {
			return "", &call.OverloadError{Limit: "printers in use", RetryAfter: time.Second}
		})
		return s
	}
	onEverySurface(t, limited, func(t *testing.T, s surface) {
		checkOverload(t, "read", s.ask(1, mcp.MethodReadResource, `"uri":"test:r"`), "printers")
	})
}

// Limits.CallsPerSecond: replicas with one store count the calls of a principal together, in all
// revisions.
func TestReplicasShareTheRateLimitOfAPrincipal(t *testing.T) {
	const echo = `"name":"echo","arguments":{"text":"a"}`
	memory := store.NewMemory()
	var all []*endpoint
	for range 3 {
		all = append(all, newEndpoint(t, func(s *server.Server) {
			authenticated(s)
			s.Store, s.Limits.CallsPerSecond = memory, 0.001
		}))
	}
	for _, token := range []string{"ada", "bob"} {
		bearer, passed := []string{"Authorization", "Bearer " + token}, 0
		session := wiretest.Session(t, all[0].http.URL, "2025-11-25", bearer...)
		for i := range 6 {
			call := func() answer { return all[i%3].modern("1", mcp.MethodCallTool, echo, bearer...) }
			if i%2 == 1 {
				call = func() answer {
					return all[i%3].do(http.MethodPost, "/", message(mcp.V20251125, 1, mcp.MethodCallTool, echo),
						session...)
				}
			}
			if code, _ := call().code(t); code == 0 {
				passed++
			}
		}
		must.CheckEqual(t, passed, 1, token)
	}
}

// subscribingClient sends requests to a server from one address or with one token.
type subscribingClient struct {
	t      *testing.T
	server *server.Server
	header []string
}

func (c *subscribingClient) open(method, target, body string, header ...string) *exchange {
	return openIn(c.t, c.server, method, target, body, append(header, c.header...)...)
}

// do sends a request that ends by itself.
func (c *subscribingClient) do(method, target, body string, header ...string) answer {
	x := c.open(method, target, body, header...).end()
	return answer{status: x.status(), header: x.rec.Header(), body: x.body()}
}

// listen opens a subscription to n URIs of 1,000 bytes, which count 1,064 each.
func (c *subscribingClient) listen(n int) *exchange {
	uris := make([]string, n)
	for i := range uris {
		uris[i] = fmt.Sprintf(`"test:%0995d"`, i)
	}
	body, header := wiretest.Modern("1", mcp.MethodListen,
		`"notifications":{"resourceSubscriptions":[`+strings.Join(uris, ",")+`]}`)
	return c.open(http.MethodPost, "/", body, header...)
}

func (c *subscribingClient) session() []string {
	a := c.do(http.MethodPost, "/", fmt.Sprintf(wiretest.Initialize, "2025-11-25"))
	header := []string{"Mcp-Session-Id", a.header.Get("Mcp-Session-Id")}
	c.do(http.MethodPost, "/", wiretest.Initialized, header...)
	return header
}

const (
	subscribeBody   = `{"jsonrpc":"2.0","id":7,"method":"resources/subscribe","params":{"uri":"test:r"}}`
	unsubscribeBody = `{"jsonrpc":"2.0","id":7,"method":"resources/unsubscribe","params":{"uri":"test:r"}}`
)

// The URIs to which a principal or an address is subscribed have at most 8 MiB, over all connections and subscriptions
// together. Sessions over Streamable HTTP have a limit of their own.
func TestBytesOfSubscribedURIsAreLimitedByOwner(t *testing.T) {
	const full, last = 7, 884 // 7 subscriptions to 1,000 URIs and one to 884 leave 32 bytes
	for name, with := range map[string]struct {
		auth        *auth.ProtectedResource
		mine, other []string
	}{
		"addresses": {mine: []string{"RemoteAddr", "192.0.2.1:1"}, other: []string{"RemoteAddr", "192.0.2.2:1"}},
		"principals": {
			auth: &auth.ProtectedResource{URI: "http://localhost", Issuers: []string{"https://issuer.example"},
				Verifier: auth.VerifierFunc(principalOfToken)},
			mine: []string{"Authorization", "Bearer me"}, other: []string{"Authorization", "Bearer you"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := httpServer()
				s.Auth = with.auth
				server.AddResource(s, mcp.Resource{URI: "test:r", Name: "r"},
					func(context.Context) (string, error) { return "", nil })
				defer func() { _ = s.Shutdown(t.Context()) }()
				c := &subscribingClient{t, s, with.mine}
				session := c.session()
				stream, endpoint := openPair(t, s, with.mine...)
				defer stream.end()
				for _, body := range []string{fmt.Sprintf(wiretest.Initialize, "2024-11-05"), wiretest.Initialized} {
					c.do(http.MethodPost, endpoint, body)
				}
				acknowledged := func(x *exchange) bool { return strings.Contains(x.body(), "acknowledged") }
				var all []*exchange
				for i := range full + 1 {
					n := 1000
					if i == full {
						n = last
					}
					if all = append(all, c.listen(n)); !acknowledged(all[i]) {
						t.Fatalf("%d %.200s", all[i].status(), all[i].body())
					}
					defer all[i].end()
				}

				const limit = "bytes of subscribed URIs"
				if a := c.do(http.MethodPost, "/", subscribeBody, session...); a.status != http.StatusOK ||
					strings.Contains(a.body, "error") {
					t.Errorf("session: %s", a)
				}
				over := c.listen(1).end()
				a := answer{status: over.status(), header: over.rec.Header(), body: over.body()}
				wantOverload(t, "listen", a, http.StatusTooManyRequests, limit)
				c.do(http.MethodPost, endpoint, subscribeBody)
				got := stream.messages()
				checkOverload(t, "pair", got[len(got)-1], limit)
				if other := (&subscribingClient{t, s, with.other}).listen(1).end(); !acknowledged(other) {
					t.Errorf("another client: %d %s", other.status(), other.body())
				}

				// With one more URI, the last subscription exceeds the limit.
				all[full].end()
				fits := func(way string, want bool) {
					t.Helper()
					if x := c.listen(last).end(); acknowledged(x) != want {
						t.Errorf("%s: want %v: %d %.200s", way, want, x.status(), x.body())
					}
				}
				fits("after the end of a subscription", true)
				c.do(http.MethodPost, endpoint, subscribeBody)
				c.do(http.MethodPost, endpoint, subscribeBody)
				fits("subscribed on a pair", false)
				c.do(http.MethodPost, endpoint, unsubscribeBody)
				c.do(http.MethodPost, endpoint, unsubscribeBody)
				fits("unsubscribed on a pair", true)
				c.do(http.MethodPost, endpoint, subscribeBody)
				stream.end()
				fits("after the end of the pair", true)
			})
		})
	}
}
