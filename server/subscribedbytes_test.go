package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// subscribingClient sends requests to a server from one address or with one token.
type subscribingClient struct {
	t      *testing.T
	server *server.Server
	header []string
}

// open sends a request in a new goroutine and returns the response, which may be read when the
// bubble is idle. The function end cancels the request.
func (c *subscribingClient) open(method, target, body string, header ...string) (response *httptest.ResponseRecorder, end func()) {
	ctx, cancel := context.WithCancel(c.t.Context())
	req := wiretest.NewRequest(ctx, method, "http://localhost"+target, body, append(header, c.header...)...)
	response = httptest.NewRecorder()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.server.ServeHTTP(response, req)
	}()
	synctest.Wait()
	return response, func() {
		cancel()
		<-done
	}
}

func (c *subscribingClient) post(body string, header ...string) *httptest.ResponseRecorder {
	response, end := c.open(http.MethodPost, "/", body, header...)
	end()
	return response
}

// listen opens a subscription to n URIs of 1,000 bytes, which count 1,064 each.
func (c *subscribingClient) listen(n int) (response *httptest.ResponseRecorder, end func()) {
	uris := make([]string, n)
	for i := range uris {
		uris[i] = fmt.Sprintf(`"test:%0995d"`, i)
	}
	body, header := wiretest.Modern("1", mcp.MethodListen, `"notifications":{"resourceSubscriptions":[`+strings.Join(uris, ",")+`]}`)
	return c.open(http.MethodPost, "/", body, header...)
}

func (c *subscribingClient) session() []string {
	response := c.post(fmt.Sprintf(wiretest.Initialize, "2025-11-25"))
	header := []string{"Mcp-Session-Id", response.Header().Get("Mcp-Session-Id")}
	c.post(wiretest.Initialized, header...)
	return header
}

// pair opens a pair of 2024-11-05.
func (c *subscribingClient) pair() (endpoint string, stream *httptest.ResponseRecorder, end func()) {
	stream, end = c.open(http.MethodGet, "/", "")
	_, endpoint, _ = strings.Cut(stream.Body.String(), "data: ")
	endpoint, _, _ = strings.Cut(endpoint, "\n")
	for _, body := range []string{fmt.Sprintf(wiretest.Initialize, "2024-11-05"), wiretest.Initialized} {
		_, done := c.open(http.MethodPost, endpoint, body)
		done()
	}
	return endpoint, stream, end
}

const (
	subscribeBody   = `{"jsonrpc":"2.0","id":7,"method":"resources/subscribe","params":{"uri":"test:r"}}`
	unsubscribeBody = `{"jsonrpc":"2.0","id":7,"method":"resources/unsubscribe","params":{"uri":"test:r"}}`
)

// The URIs to which a principal or an address is subscribed have at most 8 MiB, over all sessions
// and subscriptions together.
func TestBytesOfSubscribedURIsAreLimitedByOwner(t *testing.T) {
	const full, last = 7, 884 // 7 subscriptions to 1,000 URIs and one to 884 leave 32 bytes
	for name, with := range map[string]struct {
		auth        *auth.ProtectedResource
		mine, other []string
	}{
		"addresses": {mine: []string{"RemoteAddr", "192.0.2.1:1"}, other: []string{"RemoteAddr", "192.0.2.2:1"}},
		"principals": {
			auth: &auth.ProtectedResource{URI: "http://localhost", Issuers: []string{"https://issuer.example"}, Verifier: auth.VerifierFunc(principalOfToken)},
			mine: []string{"Authorization", "Bearer me"}, other: []string{"Authorization", "Bearer you"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := httpServer()
				s.Auth = with.auth
				server.AddResource(s, mcp.Resource{URI: "test:r", Name: "r"}, func(context.Context) (string, error) { return "", nil })
				defer func() { _ = s.Shutdown(t.Context()) }()
				c := &subscribingClient{t, s, with.mine}
				session := c.session()
				endpoint, stream, endPair := c.pair()
				defer func() { endPair() }()
				for range full {
					response, end := c.listen(1000)
					if !strings.Contains(response.Body.String(), "acknowledged") {
						t.Fatalf("%d %s", response.Code, response.Body)
					}
					defer end()
				}
				response, endLast := c.listen(last)
				if !strings.Contains(response.Body.String(), "acknowledged") {
					t.Fatalf("%d %.200s", response.Code, response.Body)
				}

				rejected := func(way string, response *httptest.ResponseRecorder) {
					t.Helper()
					if response.Code != http.StatusTooManyRequests || response.Header().Get("Retry-After") == "" {
						t.Errorf("%s: %d %v", way, response.Code, response.Header())
					}
					checkOverload(t, way, response.Body.String(), "bytes of subscribed URIs")
				}
				rejected("session", c.post(subscribeBody, session...))
				response, end := c.listen(1)
				end()
				rejected("listen", response)
				stream.Body.Reset()
				_, end = c.open(http.MethodPost, endpoint, subscribeBody)
				end()
				synctest.Wait()
				_, data, _ := strings.Cut(stream.Body.String(), "data: ")
				checkOverload(t, "pair", data, "bytes of subscribed URIs")

				response, end = (&subscribingClient{t, s, with.other}).listen(1)
				end()
				if !strings.Contains(response.Body.String(), "acknowledged") {
					t.Errorf("another client: %d %s", response.Code, response.Body)
				}

				// With one more URI, the last subscription exceeds the limit.
				endLast()
				fits := func(way string, want bool) {
					t.Helper()
					response, end := c.listen(last)
					defer end()
					if got := strings.Contains(response.Body.String(), "acknowledged"); got != want {
						t.Errorf("%s: accepted is %v: %d %.200s", way, got, response.Code, response.Body)
					}
				}
				fits("after the end of a subscription", true)
				c.post(subscribeBody, session...)
				c.post(subscribeBody, session...)
				fits("subscribed in a session", false)
				c.post(unsubscribeBody, session...)
				c.post(unsubscribeBody, session...)
				fits("unsubscribed in a session", true)
				c.post(subscribeBody, session...)
				_, end = c.open(http.MethodDelete, "/", "", session...)
				end()
				fits("after the end of the session", true)

				_, end = c.open(http.MethodPost, endpoint, subscribeBody)
				end()
				fits("subscribed on a pair", false)
				_, end = c.open(http.MethodPost, endpoint, unsubscribeBody)
				end()
				fits("unsubscribed on a pair", true)
				_, end = c.open(http.MethodPost, endpoint, subscribeBody)
				end()
				endPair()
				fits("after the end of the pair", true)

				c.post(subscribeBody, c.session()...)
				fits("subscribed in a session", false)
				time.Sleep(31 * time.Minute)
				fits("after the session has expired", true)
			})
		})
	}
}
