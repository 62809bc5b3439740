package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/streamtest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

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

// Events may be lost on their way to the client. They are in the log.
func TestLoggedEventsOfAStandaloneStreamArriveAtAnotherReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBubbleFleet(t, 3, withNote)
		time.Sleep(time.Second) // the tools and resources are no recent changes then
		session := f.session("2025-06-18")
		f.subscribe(0, session, mcp.MethodSubscribe)
		first := f.listen(0, session)
		for range 3 {
			f.update(0)
		}
		second := f.resume(1, session, first.frames()[0].ID)
		if !first.ended() {
			t.Error("the stream at the first replica has not ended")
		}
		wantEvents(t, "the second replica", second, "2 updated", "3 updated")
		f.update(0)
		wantEvents(t, "the second replica", second, "2 updated", "3 updated", "4 updated")
		wantEvents(t, "the first replica", first, "1 updated", "2 updated", "3 updated")
	})
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
					if err := <-shutdown; err != nil || !call.ended() {
						t.Error(err)
					}
				}()
				synctest.Wait()
			case "it has shut down":
				f.update(0)
				if err := f.servers[0].Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
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

// The calls in flight have almost all the time that the shutdown has, also if the store does not answer.
func TestShutdownDoesNotWaitForAStoreThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := store.NewMemory(store.MemoryOptions{})
		kv := &silentStore{KV: memory, Log: memory}
		f := newBubbleFleet(t, 1, withNote, func(s *server.Server) { s.KV = kv })
		session := f.session("2025-06-18")
		stream := f.listen(0, session) // takes the lease
		call := f.open(0, http.MethodPost, stepCall, session...)
		kv.silent = true
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = f.servers[0].Shutdown(ctx) // it cannot delete the lease
		}()
		time.Sleep(2 * time.Second)
		if !stream.ended() {
			t.Error("the standalone stream has not ended")
		}
		time.Sleep(2 * time.Second)
		close(f.steps)
		synctest.Wait()
		if !call.ended() || !strings.Contains(call.body(), `"text":"done"`) {
			t.Errorf("the call: %d %s", call.status(), call.body())
		}
		<-ended
		kv.silent = false
	})
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
			memory := store.NewMemory(store.MemoryOptions{})
			f := newBubbleFleet(t, 2, withNote, func(s *server.Server) {
				buses = append(buses, &unreliableBus{Memory: memory})
				s.Bus = silentBus{buses[len(buses)-1]}
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
				if !first.ended() {
					t.Error("the stream at the first replica has not ended")
				}
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
		if newer.ended() {
			t.Error("the stream has ended")
		}
		newer.leave()
		time.Sleep(6 * time.Minute) // the client has not come back in time
		if x := f.resume(1, session, id+".1"); x.status() != http.StatusBadRequest {
			t.Errorf("the expired stream: %d %s", x.status(), x.body())
		}
	})
}

// A standalone stream can be cut at any byte, and resumed anywhere.
func TestEachEventOfAStandaloneStreamThatIsCutFiftyTimesArrivesOnce(t *testing.T) {
	memory := store.NewMemory(store.MemoryOptions{})
	streamtest.CutStandalone(t, func() streamtest.Store { return memory })
}
