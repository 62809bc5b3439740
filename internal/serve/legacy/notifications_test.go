package legacy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// doneAfter returns a deferred notification whose function reports true after d.
func doneAfter(d time.Duration) rpc.DeferredNotification {
	begin := time.Now()
	return rpc.DeferredNotification{Method: "notifications/done", Params: []byte(`{}`), Timeout: 5 * time.Minute,
		Done: func(context.Context) (bool, error) { return time.Since(begin) >= d, nil }}
}

const doneMessage = `{"jsonrpc":"2.0","method":"notifications/done","params":{}}`

// takeAll returns the queued notifications of l.
func takeAll(l *NotificationQueue) string {
	synctest.Wait()
	select {
	case <-l.Wake():
		return string(bytes.Join(l.Take(), []byte("\n")))
	default:
		return ""
	}
}

// withSession runs f with a session in a synctest bubble, and closes the server.
func withSession(t *testing.T, f func(t *testing.T, server *Server, s *Session)) {
	synctest.Test(t, func(t *testing.T) {
		server, _ := newServer()
		defer server.Close(t.Context())
		f(t, server, newSession(t, server, "2025-11-25"))
	})
}

func TestDeferredNotificationReachesTheOpenQueue(t *testing.T) {
	withSession(t, func(t *testing.T, _ *Server, s *Session) {
		ctx, cancel := context.WithCancel(t.Context())
		first := s.Notifications()
		defer first.Close()
		takeAll(first)
		must.That(t, s.NotifyWhenDone(ctx, doneAfter(time.Minute)), "notification rejected")
		cancel() // the end of the call must not cancel the notification
		time.Sleep(59 * time.Second)
		must.CheckEqual(t, takeAll(first), "")
		second := s.Notifications()
		defer second.Close()
		time.Sleep(10 * time.Second)
		must.CheckEqual(t, takeAll(second), doneMessage)
		must.CheckEqual(t, takeAll(first), "")
		// Without a queue, the notification waits for the next one.
		second.Close()
		s.NotifyWhenDone(t.Context(), doneAfter(0))
		time.Sleep(time.Second)
		third := s.Notifications()
		defer third.Close()
		must.CheckEqual(t, takeAll(third), doneMessage)
	})
}

func TestDeferredNotificationsAreLimited(t *testing.T) {
	withSession(t, func(t *testing.T, server *Server, s *Session) {
		for i := range maxSessionDeferred + 1 {
			must.CheckEqual(t, s.NotifyWhenDone(t.Context(), doneAfter(time.Hour)), (i < maxSessionDeferred), i)
		}
		var all int
		for range 2 * maxDeferred / maxSessionDeferred {
			other := newSession(t, server, "2025-11-25")
			for other.NotifyWhenDone(t.Context(), doneAfter(time.Hour)) {
				all++
			}
		}
		must.CheckEqual(t, all, maxDeferred-maxSessionDeferred)
		time.Sleep(5*time.Minute + time.Second) // all of them time out
		must.CheckThat(t, s.NotifyWhenDone(t.Context(), doneAfter(0)), "notification rejected although none is pending")
		for range 2 * maxQueuedNotifications {
			s.Notify([]byte(doneMessage))
		}
		l := s.Notifications()
		defer l.Close()
		must.CheckEqual(t, strings.Count(takeAll(l), "done"), maxQueuedNotifications)
	})
}

// If the wait ends early, the context of the handler's function ends, and nothing is
// sent.
func TestDeferredNotificationsEndWithTheirSession(t *testing.T) {
	for name, end := range map[string]func(*Server, *Session){
		"session": func(_ *Server, s *Session) { s.Close() },
		"server": func(server *Server, _ *Session) {
			if err := server.Close(context.Background()); err != nil {
				panic(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			withSession(t, func(t *testing.T, server *Server, s *Session) {
				a := doneAfter(0)
				var ended atomic.Bool
				a.Done = func(ctx context.Context) (bool, error) {
					<-ctx.Done()
					ended.Store(true)
					return true, nil
				}
				l := s.Notifications()
				defer l.Close()
				takeAll(l)
				s.NotifyWhenDone(t.Context(), a)
				time.Sleep(time.Second)
				end(server, s)
				synctest.Wait()
				got := takeAll(l)
				must.CheckThat(t, ended.Load() && got == "", "ended: %v, received: %q", ended.Load(), got)
				must.CheckThat(t, !s.NotifyWhenDone(t.Context(), a), "a notification was accepted after the end")
			})
		})
	}
}

func TestCloseTimesOutWhenDoneDoesNotReturn(t *testing.T) {
	withSession(t, func(t *testing.T, server *Server, s *Session) {
		release := make(chan struct{})
		defer close(release)
		a := doneAfter(0)
		a.Done = func(context.Context) (bool, error) { <-release; return true, nil }
		s.NotifyWhenDone(t.Context(), a)
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		must.CheckIs(t, server.Close(ctx), context.DeadlineExceeded)
	})
}

func TestFailedDoneSendsNothing(t *testing.T) {
	for name, done := range map[string]func() (bool, error){
		"an error": func() (bool, error) { return true, errors.New("the bank is closed") },
		"panic":    func() (bool, error) { panic("the bank is closed") },
	} {
		t.Run(name, func(t *testing.T) {
			withSession(t, func(t *testing.T, server *Server, s *Session) {
				var log bytes.Buffer
				server.Logger = slog.New(slog.NewTextHandler(&log, nil))
				a := doneAfter(0)
				a.Done = func(context.Context) (bool, error) { return done() }
				l := s.Notifications()
				defer l.Close()
				takeAll(l)
				s.NotifyWhenDone(t.Context(), a)
				time.Sleep(time.Second)
				if got := takeAll(l); got != "" || !strings.Contains(log.String(), "the bank is closed") {
					t.Errorf("received %q, logged %s", got, &log)
				}
			})
		})
	}
}

// A deferred notification keeps its session alive, and a finished one does not.
func TestDeferredNotificationKeepsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, kv := newSessions(SessionLimits{Idle: time.Minute})
		l, _ := openOn(t, s, NewSessions(s.server, kv, SessionLimits{}))
		l.NotifyWhenDone(t.Context(), doneAfter(3*time.Minute))
		l.Release()
		time.Sleep(2 * time.Minute)
		must.CheckThat(t, exists(t, s, l.ID), "the session has ended early")
		time.Sleep(4 * time.Minute)
		must.CheckThat(t, !exists(t, s, l.ID), "the session is still alive")
	})
}

// What a request leaves behind, such as a task, notifies the client although the request's session has been replaced in
// memory since.
func TestANotifierThatOutlivesItsRequestReachesTheSession(t *testing.T) {
	for name, replace := range map[string]func(t *testing.T, here, there *Sessions, id string, old *StoredSession){
		"not replaced": func(*testing.T, *Sessions, *Sessions, string, *StoredSession) {},
		"changed by another replica": func(t *testing.T, _, there *Sessions, id string, _ *StoredSession) {
			l := mustOpen(t, there, principal.Anonymous, id)
			must.Do(t, l.SetLevel(t.Context(), mcp.LevelError))
			l.Release()
		},
		"not used lately": func(_ *testing.T, here, _ *Sessions, _ string, old *StoredSession) {
			here.mu.Lock()
			defer here.mu.Unlock()
			here.evict(old)
		},
	} {
		for _, read := range []bool{false, true} { // a request reads the session before the notification
			t.Run(fmt.Sprintf("%s, read %v", name, read), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					here, there := replicas()
					id := mustCreate(t, here, principal.Anonymous, "a")
					old := mustOpen(t, here, principal.Anonymous, id)
					old.Release()
					replace(t, here, there, id, old)
					if read {
						mustOpen(t, here, principal.Anonymous, id).Release()
					}
					old.Notify([]byte("status"))
					must.CheckThat(t, old.NotifyWhenDone(t.Context(), doneAfter(time.Second)),
						"a deferred notification is rejected")
					now := mustOpen(t, here, principal.Anonymous, id)
					defer now.Release()
					queue := now.Notifications()
					defer queue.Close()
					time.Sleep(10 * time.Second)
					must.CheckThat(t, old.Listens(), "the client does not listen")
					if got := takeAll(queue); !strings.HasPrefix(got, "status") || strings.Count(got, "method") != 1 {
						t.Errorf("received %q", got)
					}
				})
			})
		}
	}
}

// A client whose stream is open keeps its session, however often it is notified.
func TestASessionWithManyNotificationsIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, _ := replicas()
		id := mustCreate(t, here, principal.Anonymous, "a")
		l := mustOpen(t, here, principal.Anonymous, id)
		must.Do(t, l.MarkReady(t.Context()))
		for end := time.Now().Add(3 * here.limits.Idle); time.Now().Before(end); time.Sleep(time.Second) {
			l.Notify([]byte("status"))
		}
		must.Do(t, here.Refresh(t.Context(), l.Key()))
		l.Release()
		time.Sleep(here.limits.Idle) // the timer stops
	})
}
