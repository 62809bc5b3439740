package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/server"
)

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
