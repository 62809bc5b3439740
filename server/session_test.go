package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
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

// listenTo opens an event stream until the test ends. Each second it passes the responses to new pings to answer,
// which may be nil.
func listenTo(t *testing.T, s *server.Server, answer func(pong string), header ...string) *exchange {
	x := openIn(t, s, http.MethodGet, "/", "", append(header, "Accept", "text/event-stream")...)
	t.Cleanup(x.leave)
	go func() {
		for n := 0; answer != nil; {
			select {
			case <-x.done:
				return
			case <-time.After(time.Second):
			}
			for _, data := range x.received()[n:] {
				n++
				if pong, ok := pongTo(data); ok {
					answer(pong)
				}
			}
		}
	}()
	return x
}

// pings returns the number of pings that have arrived.
func (x *exchange) pings() int { return strings.Count(x.body(), `"method":"ping"`) }

// pongTo returns the response to a ping.
func pongTo(data string) (pong string, ok bool) {
	_, id, _ := strings.Cut(data, `"id":`)
	id, _, _ = strings.Cut(id, ",")
	return `{"jsonrpc":"2.0","id":` + id + `,"result":{}}`, strings.Contains(data, `"method":"ping"`)
}

// Rule T21: a client that answers keeps its session and its stream. A client that does not answer loses the
// stream, and later the session if it does not reconnect. Its requests in flight go on.
func TestSilentSessionClientsAreDisconnected(t *testing.T) {
	for name, does := range map[string]struct{ answer, call, comeBack bool }{
		"answers": {answer: true}, "silent": {}, "silent in a call": {call: true}, "comes back": {comeBack: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				s := httpServer()
				s.Logger = slog.New(slog.NewTextHandler(&log, nil))
				calls := addWait(s)
				session := begin(t, s)
				inBubble(s, http.MethodPost, wiretest.Initialized, session...)
				var answer func(pong string)
				if does.answer {
					answer = func(pong string) {
						rec := inBubble(s, http.MethodPost, pong, session...)
						must.CheckEqual(t, rec.Code, 202, pong, rec.Body)
					}
				}
				stream := listenTo(t, s, answer, session...)
				served := make(chan string, 1)
				var handling waiting
				if does.call {
					go func() {
						served <- inBubble(s, http.MethodPost, fmt.Sprintf(waitCall, 1),
							append(session, "Accept", "application/json")...).Body.String()
					}()
					handling = <-calls
				}
				time.Sleep(time.Minute + 20*time.Second)
				if stream.ended() == does.answer || stream.pings() < 2 {
					t.Errorf("after %d pings the stream is over: %v", stream.pings(), stream.ended())
				}
				silent := strings.Contains(log.String(), "the peer sent nothing for 30s")
				must.CheckThat(t, silent != does.answer && !strings.Contains(log.String(), session[1]), "log: %s", &log)
				if does.comeBack {
					listenTo(t, s, nil, session...)
				}
				time.Sleep(5 * time.Minute)
				lives := inBubble(s, http.MethodPost, pingBody, session...).Code == 200
				must.CheckEqual(t, lives, (does.answer || does.call || does.comeBack))
				if does.call {
					must.Check(t, handling.ctx.Err(), "the handler was cancelled")
					close(handling.release)
					must.CheckContains(t, <-served, "waited")
				}
			})
		})
	}
}

// The session of 2024-11-05 ends with its stream.
func TestSilentPairClientsAreDisconnected(t *testing.T) {
	for _, answers := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := httpServer()
			calls := addWait(s)
			var endpoint string
			post := func(body string) int {
				return wiretest.Record(s, http.MethodPost, "http://localhost"+endpoint, body).Code
			}
			var answer func(pong string)
			if answers {
				answer = func(pong string) { post(pong) }
			}
			stream := listenTo(t, s, answer)
			endpoint = stream.messages()[0]
			post(fmt.Sprintf(wiretest.Initialize, "2024-11-05"))
			post(fmt.Sprintf(waitCall, 1))
			handling := <-calls
			time.Sleep(2 * time.Minute)
			if stream.ended() == answers || stream.pings() < 2 || (handling.ctx.Err() == nil) != answers {
				t.Errorf("answers=%v: after %d pings the stream is over: %v; the call: %v", answers, stream.pings(),
					stream.ended(), handling.ctx.Err())
			}
			code := post(pingBody)
			must.CheckEqual(t, code == 202, answers, code)
		})
	}
}

// Connections of ServeConn are pinged if KeepAlive is set.
func TestSilentConnectionClientsAreDisconnected(t *testing.T) {
	for name, does := range map[string]struct {
		every  time.Duration
		answer bool
		lost   bool
	}{
		"not watched": {}, "answers": {every: time.Minute, answer: true}, "silent": {every: time.Minute, lost: true},
		"off": {every: -1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := httpServer()
				s.Limits.KeepAlive = does.every
				l := connectLine(t, s)
				l.Send(fmt.Sprintf(wiretest.Initialize, "2025-11-25"))
				l.Receive()
				l.Send(wiretest.Initialized)
				var mu sync.Mutex
				pings := 0
				reading, stop := context.WithCancel(t.Context())
				read := make(chan struct{})
				go func() {
					defer close(read)
					for {
						data, err := l.Conn.Read(reading)
						if err != nil {
							return
						}
						answer, ok := pongTo(string(data))
						if !ok {
							t.Errorf("then came %s", data)
							return
						}
						mu.Lock()
						pings++
						mu.Unlock()
						if does.answer {
							l.Send(answer)
						}
					}
				}()
				time.Sleep(5 * time.Hour)
				stop()
				<-read
				must.CheckThat(t, (pings > 0) == (does.every > 0) && (!does.answer || pings >= 290), "%d pings", pings)
				synctest.Wait()
				if does.lost {
					var silent *call.SilentError
					err := l.Served()
					must.CheckThat(t, errors.As(err, &silent) && silent.After == 2*time.Minute, "it ended with %v", err)
					return
				}
				got := l.Ask(pingBody)
				for strings.Contains(got, `"method":"ping"`) { // sent in the meantime
					got = l.Receive()
				}
				must.CheckContains(t, got, `"result":{}`)
			})
		})
	}
}
