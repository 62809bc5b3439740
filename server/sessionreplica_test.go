package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// withNote adds a resource.
func withNote(s *server.Server) {
	server.AddStatic(s, mcp.Resource{URI: "note://a", Name: "a"}, "a")
}

// listen opens the standalone stream of a session.
func (f *bubbleFleet) listen(replica int, session []string) *exchange {
	return f.open(replica, http.MethodGet, "", session...)
}

// messages returns the messages that have arrived.
func (x *exchange) messages() (all []string) {
	for _, f := range x.frames() {
		if f.Data != "" {
			all = append(all, f.Data)
		}
	}
	return all
}

// subscribe sends resources/subscribe or resources/unsubscribe to a replica.
func (f *bubbleFleet) subscribe(replica int, session []string, method string) {
	f.t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":{"uri":"note://a"}}`, method)
	if rec := inBubble(f.servers[replica], http.MethodPost, body, session...); rec.Code != http.StatusOK || strings.Contains(rec.Body.String(), "error") {
		f.t.Fatal(rec.Code, rec.Body)
	}
	synctest.Wait()
}

// coalescing is longer than changes wait for others.
const coalescing = 100 * time.Millisecond

func TestSubscriptionsOfOneReplicaReachTheStreamAtAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBubbleFleet(t, 3, withNote)
		session := f.session("2025-11-25")
		x := f.listen(1, session)
		f.subscribe(0, session, mcp.MethodSubscribe)
		f.servers[2].ResourceUpdated("note://a")
		time.Sleep(coalescing)
		if got := x.messages(); len(got) != 1 || !strings.Contains(got[0], "note://a") {
			t.Fatalf("after the subscription: %q", got)
		}
		f.subscribe(2, session, mcp.MethodUnsubscribe)
		f.servers[2].ResourceUpdated("note://a")
		time.Sleep(coalescing)
		if got := x.messages(); len(got) != 1 {
			t.Errorf("after the end of the subscription: %q", got)
		}
	})
}

// 2025-11-25, basic/transports, Multiple Connections: a message goes to one stream.
func TestANewerStandaloneStreamReplacesThatOfAnotherReplica(t *testing.T) {
	for _, disconnected := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newBubbleFleet(t, 3, withNote)
			session := f.session("2025-11-25")
			f.subscribe(0, session, mcp.MethodSubscribe)
			older := f.listen(0, session)
			if disconnected {
				older.leave()
			}
			newer := f.listen(1, session)
			if !older.ended() || newer.ended() {
				t.Errorf("the older stream has ended: %v, the newer: %v", older.ended(), newer.ended())
			}
			f.servers[2].ResourceUpdated("note://a")
			time.Sleep(coalescing)
			if got := append(older.messages(), newer.messages()...); len(got) != 1 || len(newer.messages()) != 1 {
				t.Errorf("disconnected %v: %q", disconnected, got)
			}
			back := f.listen(0, session)
			if !newer.ended() || back.ended() {
				t.Error("the stream does not come back to the first replica")
			}
		})
	}
}

// A notification that belongs to no call is created at the replica of its call. It reaches the client once,
// whether the standalone stream is open or is opened later.
func TestNotificationsReachTheReplicaWithTheStandaloneStream(t *testing.T) {
	for _, when := range []string{"before the call", "after the call", "after a stream that was cut"} {
		synctest.Test(t, func(t *testing.T) {
			var paid atomic.Bool
			f := newBubbleFleet(t, 3, func(s *server.Server) {
				server.AddTool(s, mcp.Tool{Name: "buy"}, func(ctx context.Context, _ struct{}) (string, error) {
					return "", &call.URLRequiredError{URLs: []call.RequiredURL{{
						URL: "https://pay.example/", Message: "Pay", Done: func(context.Context) (bool, error) { return paid.Load(), nil },
					}}}
				})
			})
			rec := inBubble(f.servers[0], http.MethodPost, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","clientInfo":{"name":"c","version":"1"},"capabilities":{"elicitation":{"url":{}}}}}`)
			session := []string{"Mcp-Session-Id", rec.Header().Get("Mcp-Session-Id"), "Accept", "text/event-stream, application/json"}
			inBubble(f.servers[0], http.MethodPost, wiretest.Initialized, session...)
			var x *exchange
			switch when {
			case "before the call":
				x = f.listen(1, session)
			case "after a stream that was cut":
				cut := f.listen(0, session)
				cut.leave()
				x = f.listen(1, session)
			}
			buy := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"buy"}}`
			if rec := inBubble(f.servers[0], http.MethodPost, buy, session...); !strings.Contains(rec.Body.String(), "-32042") {
				t.Fatal(rec.Body)
			}
			paid.Store(true)
			time.Sleep(time.Minute)
			if when == "after the call" {
				x = f.listen(1, session)
			}
			synctest.Wait()
			if got := x.messages(); len(got) != 1 || !strings.Contains(got[0], mcp.NotificationElicitationComplete) {
				t.Errorf("%s: %q", when, got)
			}
			if got := f.listen(2, session).messages(); len(got) != 0 {
				t.Errorf("a second time: %q", got)
			}
		})
	}
}

// 2025-11-25, basic/transports, Session Management: DELETE ends the session everywhere.
func TestDeleteEndsTheSessionAtAllReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause, release := make(chan error, 1), make(chan struct{})
		f := newBubbleFleet(t, 4, func(s *server.Server) {
			server.AddTool(s, mcp.Tool{Name: "wait"}, func(ctx context.Context, _ struct{}) (string, error) {
				_ = server.Progress(ctx, 1, 0, "")
				<-ctx.Done()
				cause <- context.Cause(ctx)
				<-release
				return "", ctx.Err()
			})
		})
		session := f.session("2025-11-25")
		call := f.open(0, http.MethodPost, strings.Replace(stepCall, "step", "wait", 1), session...)
		got := call.frames()
		standalone, follower := f.listen(1, session), f.resume(2, session, got[len(got)-1].ID)
		for i, x := range []*exchange{call, standalone, follower} {
			if x.status() != http.StatusOK || x.ended() {
				t.Fatalf("stream %d: %d %s", i, x.status(), x.body())
			}
		}
		started := time.Now()
		if rec := inBubble(f.servers[3], http.MethodDelete, "", session...); rec.Code != http.StatusNoContent {
			t.Fatal(rec.Code, rec.Body)
		}
		if !standalone.ended() || !follower.ended() {
			t.Errorf("the standalone stream has ended: %v, the follower: %v", standalone.ended(), follower.ended())
		}
		if close(release); !call.ended() {
			t.Error("the stream of the call has not ended")
		}
		if waited := time.Since(started); waited > 0 {
			t.Errorf("the streams end after %v", waited)
		}
		select {
		case err := <-cause:
			if err == nil || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the call has ended because of %v", err)
			}
		default:
			t.Error("the call was not cancelled")
		}
		for i, s := range f.servers {
			if rec := inBubble(s, http.MethodPost, pingBody, session...); rec.Code != http.StatusNotFound {
				t.Errorf("replica %d: %d", i, rec.Code)
			}
		}
	})
}

// A replica that may have missed the end of a session looks for it.
func TestSessionsAreReadAgainWhenMessagesAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBubbleFleet(t, 2)
		session := f.session("2025-11-25")
		x := f.listen(1, session)
		if err := f.stores[0].Memory.Delete(t.Context(), *f.stores[0].session.Load()); err != nil {
			t.Fatal(err)
		}
		for range 4 * store.MaxQueue { // more than a subscription holds
			if err := f.stores[0].Memory.Publish(t.Context(), "server/sessions", []byte(`{"o":"x","s":"another"}`)); err != nil {
				t.Fatal(err)
			}
		}
		if !x.ended() {
			t.Error("the stream has not ended")
		}
	})
}
