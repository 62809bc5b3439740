package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/replicatest"
	"github.com/parley-mcp/parley/internal/storecheck"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

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
		got := x.messages()
		must.CheckEqual(t, len(got), 1, "after the end of the subscription", got)
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
			got := append(older.messages(), newer.messages()...)
			must.CheckThat(t, len(got) == 1 && len(newer.messages()) == 1, "disconnected %v: %q", disconnected, got)
			back := f.listen(0, session)
			must.CheckThat(t, newer.ended() && !back.ended(), "the stream does not come back to the first replica")
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
						URL: "https://pay.example/", Message: "Pay",
						Done: func(context.Context) (bool, error) { return paid.Load(), nil },
					}}}
				})
			})
			rec := inBubble(f.servers[0], http.MethodPost,
				`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",`+
					`"clientInfo":{"name":"c","version":"1"},"capabilities":{"elicitation":{"url":{}}}}}`)
			session := []string{"Mcp-Session-Id", rec.Header().Get("Mcp-Session-Id"), "Accept",
				"text/event-stream, application/json"}
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
			if rec := inBubble(f.servers[0], http.MethodPost, buy, session...); !strings.Contains(rec.Body.String(),
				"-32042") {
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
			got := f.listen(2, session).messages()
			must.CheckEqual(t, len(got), 0, "a second time", got)
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
		rec := inBubble(f.servers[3], http.MethodDelete, "", session...)
		must.Equal(t, rec.Code, http.StatusNoContent, rec.Body)
		if !standalone.ended() || !follower.ended() {
			t.Errorf("the standalone stream has ended: %v, the follower: %v", standalone.ended(), follower.ended())
		}
		if close(release); !call.ended() {
			t.Error("the stream of the call has not ended")
		}
		waited := time.Since(started)
		must.CheckThat(t, waited <= 0, "the streams end after %v", waited)
		select {
		case err := <-cause:
			must.CheckThat(t, err != nil && !errors.Is(err, context.DeadlineExceeded),
				"the call has ended because of %v", err)
		default:
			t.Error("the call was not cancelled")
		}
		for i, s := range f.servers {
			for method, body := range map[string]string{"POST": pingBody, "GET": "", "DELETE": ""} {
				must.CheckEqual(t, inBubble(s, method, body, session...).Code, http.StatusNotFound, method, i)
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
		must.Do(t, f.stores[0].Store.Delete(t.Context(), *f.stores[0].session.Load()))
		for attempts := 0; !x.ended(); attempts++ { // the replica may read as fast as this replica publishes
			must.That(t, attempts < 100, "the stream has not ended")
			for range 4 * storecheck.MaxQueue { // more than a subscription holds
				must.Do(t, f.stores[0].Store.Publish(t.Context(), "server/sessions", []byte(`{"o":"x","s":"another"}`)))
			}
		}
	})
}

// events returns the numbers and messages of the events that have arrived.
func (x *exchange) events() (all []string) {
	for _, f := range x.frames() {
		if f.Data == "" {
			continue
		}
		what := "updated"
		if strings.Contains(f.Data, "list_changed") {
			what = "list"
		}
		all = append(all, f.Seq()+" "+what)
	}
	return all
}

func wantEvents(t *testing.T, what string, x *exchange, want ...string) {
	t.Helper()
	if got := x.events(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: events %q, want %q\n%d %s", what, got, want, x.status(), x.body())
	}
}

// update changes the resource of withNote, and waits until the clients know.
func (f *bubbleFleet) update(replica int) {
	f.servers[replica].ResourceUpdated("note://a")
	time.Sleep(time.Second)
}

// 2025-11-25, basic/transports, Resumability and Redelivery: a client that has lost the standalone stream resumes it at
// any replica. It receives each event once, in order, also those of the time without a connection.
func TestAStandaloneStreamIsResumedAtAnotherReplica(t *testing.T) {
	for _, version := range resumableRevisions {
		synctest.Test(t, func(t *testing.T) {
			f := newBubbleFleet(t, 3, withNote)
			time.Sleep(time.Second) // the tools and resources are no recent changes then
			session := f.session(version)
			f.subscribe(0, session, mcp.MethodSubscribe)
			x := f.listen(0, session)
			f.update(2)
			wantEvents(t, "the first replica", x, "1 updated")
			id := x.frames()[len(x.frames())-1].ID
			x.leave()
			f.update(0)
			for i := range 6 { // it comes back to the first replica, too
				at := (i + 1) % 3
				x = f.resume(at, session, id)
				time.Sleep(coalescing)
				wantEvents(t, "the event without a connection", x, fmt.Sprint(2+2*i)+" updated")
				f.update((at + 1) % 3)
				wantEvents(t, "the next event", x, fmt.Sprint(2+2*i)+" updated", fmt.Sprint(3+2*i)+" updated")
				id = x.frames()[len(x.frames())-1].ID
				x.leave()
				f.update((at + 2) % 3)
			}
		})
	}
}

// Before its first event, a client of 2025-11-25 has the id of the beginning of the stream.
func TestAStandaloneStreamWithoutEventsIsResumedAtAnotherReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBubbleFleet(t, 2, withNote)
		time.Sleep(time.Second)
		session := f.session("2025-11-25")
		f.subscribe(0, session, mcp.MethodSubscribe)
		x := f.listen(0, session)
		id := x.frames()[0].ID
		x.leave()
		x = f.resume(1, session, id)
		f.update(0)
		wantEvents(t, "the second replica", x, "1 updated")
	})
}

// The replica with the stream has ended. Its notifications since its last event are lost, so the client receives a
// notification of each list and of each resource to which it has subscribed.
func TestAStandaloneStreamOfAReplicaThatHasEndedIsResumedAtAnother(t *testing.T) {
	for _, how := range []string{"its process has ended", "it shuts down", "it has shut down", "the stream is idle"} {
		synctest.Test(t, func(t *testing.T) {
			f := newBubbleFleet(t, 2, withNote)
			time.Sleep(time.Second)
			session := f.session("2025-06-18")
			f.subscribe(0, session, mcp.MethodSubscribe)
			x := f.listen(0, session)
			f.update(0)
			id, want := x.frames()[0].ID, 5 // the logged event, one of the resource, and those of two lists
			switch how {
			case "its process has ended":
				f.update(0)
				f.stores[0].cut.Store(true)
				time.Sleep(20 * time.Second)
			case "it shuts down": // and waits for a call
				f.update(0)
				call := f.open(0, http.MethodPost, stepCall, session...)
				shutdown := make(chan error, 1)
				go func() { shutdown <- f.servers[0].Shutdown(t.Context()) }()
				defer func() {
					close(f.steps)
					err := <-shutdown
					must.CheckThat(t, err == nil && call.ended(), "%v", err)
				}()
				synctest.Wait()
			case "it has shut down":
				f.update(0)
				must.Check(t, f.servers[0].Shutdown(t.Context()))
			default: // the events have expired, so nothing says that the number is right
				time.Sleep(6 * time.Minute)
				want = 4
			}
			x.leave()
			x = f.resume(1, session, id)
			time.Sleep(coalescing)
			got := x.events()
			if n := strings.Count(fmt.Sprint(got), "list"); len(got) != want-1 || n != 2 {
				t.Errorf("%s: %q\n%d %s", how, got, x.status(), x.body())
			}
			f.update(1)
			if again := x.events(); len(again) != want || again[want-1] != fmt.Sprint(want+1)+" updated" {
				t.Errorf("%s: it continues with %q", how, again)
			}
		})
	}
}

// silentBus loses the announcements of changes.
type silentBus struct{ *unreliableBus }

func (b silentBus) Publish(ctx context.Context, topic string, message []byte) error {
	if topic == "server/changes" {
		return nil
	}
	return b.unreliableBus.Publish(ctx, topic, message)
}

// A replica that does not know yet that another one has taken over the stream may log one more event.
func TestEventsOfTheEarlierReplicaOfAStandaloneStreamArriveOnce(t *testing.T) {
	for _, later := range []string{"an event of the new replica", "the end of the old stream"} {
		synctest.Test(t, func(t *testing.T) {
			buses := make([]*unreliableBus, 0, 2)
			memory := store.NewMemory()
			f := newBubbleFleet(t, 2, withNote, func(s *server.Server) {
				buses = append(buses, &unreliableBus{Store: memory})
				s.Store = silentBus{buses[len(buses)-1]}
			})
			time.Sleep(time.Second)
			session := f.session("2025-06-18")
			f.subscribe(0, session, mcp.MethodSubscribe)
			first := f.listen(0, session)
			f.update(0)
			buses[1].down.Store(true) // the first replica does not learn of the other
			second := f.resume(1, session, first.frames()[0].ID)
			f.update(0)
			wantEvents(t, "the first replica", first, "1 updated", "2 updated")
			wantEvents(t, "the second replica", second)
			if later == "an event of the new replica" {
				server.AddStatic(f.servers[1], mcp.Resource{URI: "note://b", Name: "b"}, "b")
				time.Sleep(coalescing)
				wantEvents(t, later, second, "2 updated", "3 list")
				f.update(0) // the first replica finds out, and hands the notification over
				must.CheckThat(t, first.ended(), "the stream at the first replica has not ended")
				buses[1].down.Store(false)
				time.Sleep(5 * time.Second)
				if got := second.events(); len(got) < 3 || got[2] != "4 updated" {
					t.Errorf("after the notification was handed over: %q", got)
				}
				return
			}
			buses[1].down.Store(false)
			time.Sleep(5 * time.Second)
			wantEvents(t, later, second, "2 updated")
		})
	}
}

// Other standalone streams of the session are over, and ids that this server has not sent are unknown.
func TestOnlyTheNewestStandaloneStreamIsResumedAtAnotherReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBubbleFleet(t, 2, withNote)
		time.Sleep(time.Second)
		session := f.session("2025-06-18")
		f.subscribe(0, session, mcp.MethodSubscribe)
		older := f.listen(0, session)
		f.update(0)
		newer := f.listen(0, session)
		f.update(0)
		if x := f.resume(1, session, older.frames()[0].ID); x.status() != http.StatusGone {
			t.Errorf("the older stream: %d %s", x.status(), x.body())
		}
		id, _, _ := strings.Cut(newer.frames()[0].ID, ".")
		for _, forged := range []string{id + ".7", "gAAAAAAAAAAAAAAAA.0", "gAAAAAAAAAAAAAAAA.1"} {
			if x := f.resume(1, session, forged); x.status() != http.StatusBadRequest {
				t.Errorf("%s: %d %s", forged, x.status(), x.body())
			}
		}
		must.CheckThat(t, !newer.ended(), "the stream has ended")
		newer.leave()
		time.Sleep(6 * time.Minute) // the client has not come back in time
		if x := f.resume(1, session, id+".1"); x.status() != http.StatusBadRequest {
			t.Errorf("the expired stream: %d %s", x.status(), x.body())
		}
	})
}

// A standalone stream can be cut at any byte, and resumed anywhere.
func TestEachEventOfAStandaloneStreamThatIsCutFiftyTimesArrivesOnce(t *testing.T) {
	memory := store.NewMemory()
	replicatest.CutStandalone(t, func() store.Store { return memory })
}

// askingReplicas returns two replicas with the tool "ask", which asks for a name and returns its
// length, and the tool "roots", which asks for the roots and returns their number. Both send the cause of the
// end of their context.
func askingReplicas(t *testing.T, keys [][]byte) (first, second *endpoint, ended chan error) {
	bus := &unreliableBus{Store: store.NewMemory()}
	ended = make(chan error, 1)
	share := func(s *server.Server) {
		s.Store, s.Keys = bus, keys
		server.AddTool(s, mcp.Tool{Name: "ask"}, func(ctx context.Context, _ struct{}) (string, error) {
			answer, err := server.Elicit[struct{ Name string }](ctx, "name?")
			ended <- context.Cause(ctx)
			return fmt.Sprintf("%d characters", len(answer.Name)), err
		})
		server.AddTool(s, mcp.Tool{Name: "roots"}, func(ctx context.Context, _ struct{}) (string, error) {
			roots, err := server.Roots(ctx)
			ended <- context.Cause(ctx)
			return fmt.Sprintf("%d roots", len(roots)), err
		})
	}
	return newEndpoint(t, share), newEndpoint(t, share), ended
}

const elicitingClient = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"%s",` +
	`"clientInfo":{"name":"c","version":"1"},"capabilities":{"elicitation":{},"roots":{}}}}`

// beginAsk calls a tool that asks the client. It returns the event stream of the call and the id of the question.
func beginAsk(t *testing.T, e *endpoint, session []string, tool string, id int,
	method string) (*wiretest.Events, json.RawMessage) {
	t.Helper()
	stream := wiretest.Stream(t, e.open(t.Context(), http.MethodPost, "/",
		fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{}}}`, id, tool),
		session...))
	data := stream.Data()
	var question struct {
		ID     json.RawMessage
		Method string
	}
	err := json.Unmarshal([]byte(data), &question)
	must.That(t, err == nil && question.Method == method, "%s %v", data, err)
	return stream, question.ID
}

// 2025-11-25, basic/transports, Sending Messages to the Server: each message is a POST of its own, so a
// load balancer can send it to another replica than the call.
func TestAnswersAndCancellationsReachTheReplicaOfTheirCall(t *testing.T) {
	for _, keys := range [][][]byte{nil, {make([]byte, 32)}} {
		for _, length := range []int{3, 200_000} {
			first, second, ended := askingReplicas(t, keys)
			a := first.do(http.MethodPost, "/", fmt.Sprintf(elicitingClient, "2025-06-18"))
			session := []string{"Mcp-Session-Id", a.header.Get("Mcp-Session-Id"), "MCP-Protocol-Version", "2025-06-18"}
			second.do(http.MethodPost, "/", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session...)
			stream, id := beginAsk(t, first, session, "ask", 1, mcp.MethodElicit)
			answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"Name":"%s"}}}`, id,
				strings.Repeat("x", length))
			if a := second.do(http.MethodPost, "/", answer, session...); a.status != http.StatusAccepted {
				t.Errorf("the answer: %s", a)
			}
			must.CheckContains(t, stream.Data(), fmt.Sprintf(`"text":"%d characters"`, length))
			<-ended

			stream, _ = beginAsk(t, first, session, "ask", 2, mcp.MethodElicit)
			if a := second.do(http.MethodPost, "/",
				`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`,
				session...); a.status != http.StatusAccepted {
				t.Errorf("the cancellation: %s", a)
			}
			err := <-ended
			must.CheckThat(t, err != nil, "the call was not cancelled")
			stream.Close()
		}
	}
}

// A client that does not wait for the status of its answer has sent it all the same.
func TestAnswersOfClientsThatDisconnectReachTheReplicaOfTheirCall(t *testing.T) {
	first, second, ended := askingReplicas(t, nil)
	a := first.do(http.MethodPost, "/", fmt.Sprintf(elicitingClient, "2025-03-26"))
	session := []string{"Mcp-Session-Id", a.header.Get("Mcp-Session-Id")}
	first.do(http.MethodPost, "/", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session...)
	for _, form := range []string{"%s", "[%s]"} {
		stream, id := beginAsk(t, first, session, "roots", 1, mcp.MethodListRoots)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		body := fmt.Sprintf(form, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"roots":[{"uri":"file:///a"}]}}`, id))
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, second.http.URL, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set(session[0], session[1])
		w := httptest.NewRecorder()
		second.server.ServeHTTP(w, r)
		must.Equal(t, w.Code, http.StatusAccepted, w.Body)
		must.CheckContains(t, stream.Data(), `"text":"1 roots"`)
		<-ended
		stream.Close()
	}
}

// 2025-03-26, basic, Batching: responses and cancellations may be in a batch, also together with requests.
func TestAnswersAndCancellationsInABatchReachTheReplicaOfTheirCall(t *testing.T) {
	const ping = `,{"jsonrpc":"2.0","id":9,"method":"ping"}`
	first, second, ended := askingReplicas(t, nil)
	a := first.do(http.MethodPost, "/", fmt.Sprintf(elicitingClient, "2025-03-26"))
	session := []string{"Mcp-Session-Id", a.header.Get("Mcp-Session-Id")}
	second.do(http.MethodPost, "/", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session...)
	for request, want := range map[string]answer{
		"":   {status: http.StatusAccepted},
		ping: {status: http.StatusOK, body: `[{"jsonrpc":"2.0","id":9,"result":{}}]`},
	} {
		stream, id := beginAsk(t, first, session, "roots", 1, mcp.MethodListRoots)
		answer := fmt.Sprintf(`[{"jsonrpc":"2.0","id":%s,"result":{"roots":[{"uri":"file:///a"}]}}%s]`, id, request)
		if a := second.do(http.MethodPost, "/", answer, session...); a.status != want.status || a.body != want.body {
			t.Errorf("the answer with %q: %s", request, a)
		}
		must.CheckContains(t, stream.Data(), `"text":"1 roots"`)
		<-ended

		stream, _ = beginAsk(t, first, session, "roots", 2, mcp.MethodListRoots)
		cancellation := `[{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}` + request + `]`
		a := second.do(http.MethodPost, "/", cancellation, session...)
		must.CheckThat(t, a.status == want.status && a.body == want.body, "the cancellation with %q: %s", request, a)
		err := <-ended
		must.CheckThat(t, err != nil, "the call was not cancelled")
		stream.Close()
	}
}

// A client learns that its answer was not delivered, and can send it again.
func TestAnswersThatCannotBeForwardedAreRejected(t *testing.T) {
	bus := &unreliableBus{Store: store.NewMemory()}
	e := newEndpoint(t, func(s *server.Server) { s.Store = bus })
	session := e.session("2025-03-26")
	bus.down.Store(true)
	for _, body := range []string{`{"jsonrpc":"2.0","id":7,"result":{}}`, `[{"jsonrpc":"2.0","id":7,"result":{}}]`} {
		a := e.do(http.MethodPost, "/", body, session...)
		must.CheckThat(t, a.status == http.StatusServiceUnavailable && strings.Contains(a.body, "send it again"),
			"%v", a)
	}
	a := e.do(http.MethodPost, "/", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, session...)
	must.CheckEqual(t, a.status, http.StatusOK, a)
}
