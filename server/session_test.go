package server_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// An open stream or call counts as use of the session.
func TestASessionLivesWhileItsStreamIsOpen(t *testing.T) {
	for name, body := range map[string]string{"a stream": "", "a call": fmt.Sprintf(waitCall, 1)} {
		synctest.Test(t, func(t *testing.T) {
			k := newKept()
			s := httpServer()
			addWait(s)
			s.Store, s.Limits.KeepAlive = k, -1 // no pings, because the client does not answer
			defer shutdown(t, s)
			session := begin(t, s)
			inBubble(s, http.MethodPost, wiretest.Initialized, session...)
			method := http.MethodPost
			if body == "" {
				method = http.MethodGet
			}
			x := openIn(t, s, method, "/", body, session...)
			time.Sleep(5 * time.Hour)
			must.CheckEqual(t, inBubble(s, http.MethodPost, pingBody, session...).Code, 200, name)
			x.leave()
			if body != "" { // a disconnect does not end the call
				inBubble(s, http.MethodPost, cancelled("1"), session...)
			}
			<-x.done
			time.Sleep(36 * time.Minute) // the client may resume the stream for 5 minutes
			must.CheckEqual(t, k.left(t), 0, name)
		})
	}
}

// An abandoned session leaves an entry in the store until it expires, and nothing else.
func TestAbandonedSessionsAreReclaimed(t *testing.T) {
	for name, use := range map[string]func(t *testing.T, s *server.Server, session []string){
		"after initialize": func(*testing.T, *server.Server, []string) {},
		"after a POST only": func(t *testing.T, s *server.Server, session []string) {
			must.Equal(t, inBubble(s, http.MethodPost, pingBody, session...).Code, 200)
		},
		"after the handshake": func(t *testing.T, s *server.Server, session []string) {
			must.Equal(t, inBubble(s, http.MethodPost, wiretest.Initialized, session...).Code, 202)
		},
		"after a call": func(t *testing.T, s *server.Server, session []string) {
			inBubble(s, http.MethodPost, wiretest.Initialized, session...)
			rec := inBubble(s, http.MethodPost, countCall, session...)
			must.Contains(t, rec.Body.String(), "done", rec.Body)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKept()
				s := httpServer()
				s.Store = k
				defer shutdown(t, s)
				must.Do(t, s.Check())
				synctest.Wait()
				before := runtime.NumGoroutine()
				const sessions = 20
				for range sessions {
					use(t, s, begin(t, s))
				}
				time.Sleep(20 * time.Second) // the lease of the replica expires
				must.CheckEqual(t, k.left(t), sessions)
				time.Sleep(30 * time.Minute)
				must.CheckEqual(t, k.left(t), 0)
				// The runtime may have one or two more of its own, for example after a garbage collection.
				n := runtime.NumGoroutine()
				must.CheckThat(t, n < before+sessions, "%d goroutines, and %d before", n, before)
			})
		})
	}
}

// Rules T21, T23: a long call sends a comment every 15 seconds, or at the interval of Limits.KeepAlive, and then the
// result.
func TestALongCallIsKeptAlive(t *testing.T) {
	for interval, comments := range map[time.Duration]int{0: 3, 9 * time.Second: 5} {
		synctest.Test(t, func(t *testing.T) {
			s := httpServer()
			s.Limits.KeepAlive = interval
			calls := addWait(s)
			x := openIn(t, s, http.MethodPost, "/", fmt.Sprintf(waitCall, 1), begin(t, s)...)
			w := <-calls
			time.Sleep(50 * time.Second)
			close(w.release)
			<-x.done
			want := `^id: \S+\.0\ndata:\n\n` + strings.Repeat(`:\n`, comments) +
				`id: \S+\.1\nevent: message\ndata: {.*"waited"`
			kind := x.rec.Header().Get("Content-Type")
			if kind != "text/event-stream" || !regexp.MustCompile(want).MatchString(x.body()) {
				t.Errorf("every %v: %q", interval, x.body())
			}
		})
	}
}

func TestSessionsAreActiveDuringRequests(t *testing.T) {
	s := &server.Server{}
	server.AddTool(s, mcp.Tool{Name: "count"}, func(context.Context, struct{}) (int, error) {
		return s.ActiveSessions(), nil
	})
	must.CheckEqual(t, s.ActiveSessions(), 0)
	endpointOf(t, s).session("2025-11-25")
	must.CheckEqual(t, s.ActiveSessions(), 0)
	for range 2 {
		c := mcptest.DialHTTP(t, s, mcptest.WithRevision(mcp.V20251125))
		result, err := c.CallTool(t.Context(), "count", nil)
		must.CheckThat(t, err == nil && result.Content[0].(*mcp.TextContent).Text != "0",
			"during a call: %+v, %v", result, err)
		must.Do(t, c.Close())
	}
	must.CheckEqual(t, s.ActiveSessions(), 0)
}
