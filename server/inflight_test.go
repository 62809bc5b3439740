package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

const waitCall = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"wait"}}`

// A request over the limit gets the HTTP status that asks for a retry, however many arrive at the same moment,
// and not by an error in a response.
func TestConcurrentRequestsOverTheLimitAreToldToRetry(t *testing.T) {
	const most, all = 2, 40
	e := newEndpoint(t, func(s *server.Server) { s.Limits.MaxInflight = most })
	session := e.session("2025-03-26")
	pair := e.pair("/")
	e.do("POST", pair.endpoint, fmt.Sprintf(wiretest.Initialize, "2024-11-05"))
	for name, send := range map[string]func(id int) answer{
		"session": func(id int) answer { return e.do("POST", "/", fmt.Sprintf(waitCall, id), session...) },
		"batch": func(id int) answer {
			return e.do("POST", "/", "["+fmt.Sprintf(waitCall, id)+","+fmt.Sprintf(waitCall, id+all)+"]", session...)
		},
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
			served := most
			if name == "batch" {
				served = 1
			}
			check := func(n, status int) {
				t.Helper()
				for range n {
					if a := <-answers; a.status != status || status == 429 && a.header.Get("Retry-After") == "" || strings.Contains(a.body, "error") != (status == 429) {
						t.Errorf("%s", a)
					}
				}
			}
			if name == "pair" { // accepted at once, the response comes on the stream
				got := map[int]int{}
				for range all {
					got[(<-answers).status]++
				}
				if got[202] != most || got[429] != all-most {
					t.Errorf("%v", got)
				}
			} else {
				check(all-served, 429)
			}
			for _, w := range blocked {
				close(w.release)
			}
			if name != "pair" {
				check(served, 200)
			}
			sending.Wait()
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
				return inBubble(s, http.MethodPost, body, append(append(header, "Accept", "application/json, text/event-stream"), who...)...)
			}
			var serving sync.WaitGroup
			var blocked []waiting
			for range 2 {
				serving.Go(func() {
					if rec := send(mcp.MethodCallTool, `"name":"wait"`, with.mine); rec.Code != 200 || !strings.Contains(rec.Body.String(), "waited") {
						t.Errorf("%d %s", rec.Code, rec.Body)
					}
				})
				blocked = append(blocked, <-calls)
			}
			rec := send(mcp.MethodListTools, "", with.mine)
			if rec.Code != 429 || rec.Header().Get("Retry-After") == "" || !strings.Contains(rec.Body.String(), `"id":1`) {
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

// principalOfToken is a verifier whose principal is the token.
func principalOfToken(_ context.Context, token string) (*auth.Info, error) {
	who, err := principal.New("https://issuer.example", token, "")
	return &auth.Info{Principal: who, Audience: []string{"http://localhost"}, Expiry: time.Now().Add(time.Hour)}, err
}
