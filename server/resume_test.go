package server_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/replicatest"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// resumableRevisions are the revisions whose streams can be resumed.
var resumableRevisions = []string{"2025-03-26", "2025-06-18", "2025-11-25"}

// frames reads an event stream until it ends or n events have arrived.
func frames(t *testing.T, resp *http.Response, n int) []wiretest.Event {
	t.Helper()
	return wiretest.Stream(t, resp).Take(n)
}

const everything = -1

// wantNumbered fails unless the events are progress from first to last with matching numbers.
func wantNumbered(t *testing.T, got []wiretest.Event, first, last int) {
	t.Helper()
	must.That(t, len(got) >= last-first+1, "%d events, want %d to %d: %.300v", len(got), first, last, got)
	for i := range last - first + 1 {
		n := strconv.Itoa(first + i)
		f := got[i]
		must.That(t, f.Seq() == n && strings.Contains(f.Data, `"progress":`+n+`,`), "event %s is %.200v", n, f)
	}
}

// wantAnswer fails unless the last event is the response.
func wantAnswer(t *testing.T, got []wiretest.Event, seq int) {
	t.Helper()
	must.That(t, len(got) != 0 && got[len(got)-1].Seq() == strconv.Itoa(seq) &&
		strings.Contains(got[len(got)-1].Data, `"id":1,"result"`),
		"the last event is not the response, with number %d: %.300v", seq, got)
}

// stepping is an endpoint with a tool "step" that reports progress on demand.
type stepping struct {
	*endpoint
	steps chan int // number of reports to send; closing it ends the call
}

func newStepping(t *testing.T, configure ...func(*server.Server)) *stepping {
	s := &stepping{steps: make(chan int)}
	s.endpoint = newEndpoint(t, append(configure, func(srv *server.Server) {
		server.AddTool(srv, mcp.Tool{Name: "step"}, func(ctx context.Context, _ struct{}) (string, error) {
			done := 0
			for {
				select {
				case n, more := <-s.steps:
					if !more {
						return "done", nil
					}
					for range n {
						done++
						if err := server.Progress(ctx, float64(done), 1e6, ""); err != nil {
							return "", err
						}
					}
				case <-ctx.Done():
					return "", ctx.Err()
				}
			}
		})
	})...)
	return s
}

const stepCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"step","_meta":{"progressToken":1}}}`

// begin starts a call, makes it report n times and reads the reports. Then the client disconnects, and
// begin waits until the server has noticed.
func (s *stepping) begin(session []string, n int) []wiretest.Event {
	s.t.Helper()
	ctx, hangUp := context.WithCancel(s.t.Context())
	defer hangUp()
	opened := make(chan *http.Response)
	go func() { opened <- s.open(ctx, "POST", "/", stepCall, append(session, "X-Watched", "1")...) }()
	s.steps <- n
	resp := <-opened
	defer resp.Body.Close()
	if session[3] == "2025-11-25" {
		n++ // the priming event
	}
	got := frames(s.t, resp, n)
	hangUp()
	<-(<-s.arrived).Done()
	return got
}

func (s *stepping) resume(session []string, last string) *http.Response {
	s.t.Helper()
	return s.open(s.t.Context(), "GET", "/", "", append(session, "Accept", "text/event-stream", "Last-Event-ID",
		last)...)
}

// Rule T13: event ids are unique within the session and identify their stream. In 2025-11-25 a priming event
// has an id to resume from before the first message.
func TestEventsOfASessionHaveIDs(t *testing.T) {
	for _, r := range resumableRevisions {
		e := newEndpoint(t)
		session := e.session(r)
		seen, streams := make(map[string]bool), make(map[string]bool)
		for range 3 {
			got := frames(t, e.open(t.Context(), "POST", "/", countCall, session...), everything)
			if primed := r == "2025-11-25"; primed {
				if p := got[0]; p.Data != "" || p.Retry != "" || p.Seq() != "0" {
					t.Errorf("%s: the stream begins with %v", r, p)
				}
				got = got[1:]
			}
			wantNumbered(t, got, 1, 3)
			wantAnswer(t, got, 4)
			for _, f := range got {
				stream, _, _ := strings.Cut(f.ID, ".")
				if streams[stream] = true; seen[f.ID] || f.Retry != "" {
					t.Errorf("%s: %v", r, f)
				}
				seen[f.ID] = true
			}
		}
		must.CheckEqual(t, len(streams), 3, r, streams)
	}
}

// Rules T6, T13: events of streams that cannot be resumed have no ids.
func TestEventsOfOtherRevisionsHaveNoIDs(t *testing.T) {
	e := newEndpoint(t)
	old := e.session("2024-11-05")
	standalone := e.open(t.Context(), "GET", "/", "", append(old, "Accept", "text/event-stream", "Last-Event-ID",
		"7")...)
	e.server.RemoveTool("big")
	body, header := modernCall(`"name":"count","arguments":{"to":3}`)
	for what, got := range map[string][]wiretest.Event{
		"a call in 2024-11-05": frames(t, e.open(t.Context(), "POST", "/", countCall, old...),
			everything),
		"the standalone stream in 2024-11-05": frames(t, standalone, 1),
		"2026-07-28": frames(t, e.open(t.Context(), "POST", "/", body, append(header,
			"Last-Event-ID", "p.1")...), everything),
	} {
		for _, f := range got {
			must.CheckThat(t, f.ID == "" && f.Retry == "" && f.Data != "", "%s: %v", what, f)
		}
		must.CheckEqual(t, len(got), map[bool]int{true: 1, false: 4}[strings.Contains(what, "standalone")], what, got)
	}
	standalone.Body.Close()
}

// Rules T12, T21: a client that reconnects receives all messages after the event that it names, both while the
// call runs and after it has ended.
func TestAResumedStreamContinuesWhereItBroke(t *testing.T) {
	for _, r := range resumableRevisions {
		e := newStepping(t)
		session := e.session(r)
		got := e.begin(session, 3)
		wantNumbered(t, got[len(got)-3:], 1, 3)
		e.steps <- 4           // while the client is disconnected
		if r == "2025-11-25" { // the client may lose the connection after the priming event
			resp := e.resume(session, got[0].ID)
			wantNumbered(t, frames(t, resp, 7), 1, 7)
			resp.Body.Close()
		}
		for after := 1; after <= 3; after++ {
			resp := e.resume(session, got[len(got)-4+after].ID)
			wantNumbered(t, frames(t, resp, 7-after), after+1, 7)
			resp.Body.Close()
		}
		resp := e.resume(session, got[len(got)-1].ID)
		read := make(chan []wiretest.Event)
		go func() { read <- frames(t, resp, everything) }()
		e.steps <- 2 // after it has reconnected
		close(e.steps)
		live := <-read
		wantNumbered(t, live, 4, 9)
		wantAnswer(t, live, 10)

		late := frames(t, e.resume(session, got[len(got)-2].ID), everything)
		wantNumbered(t, late, 3, 9)
		wantAnswer(t, late, 10)
		rest := frames(t, e.resume(session, late[len(late)-1].ID), everything)
		must.CheckEqual(t, len(rest), 0, r, "behind the response came", rest)
	}
}

// Rules T12, T13: an event id gives access only to its own stream, in its own session.
func TestForgedEventIDsReplayNothing(t *testing.T) {
	e := newStepping(t)
	session, other := e.session("2025-11-25"), e.session("2025-11-25")
	got := e.begin(session, 2)
	id := got[1].ID
	foreign := frames(t, e.open(t.Context(), "POST", "/", countCall, other...), everything)[1].ID
	name, _, _ := strings.Cut(id, ".")
	for _, last := range []string{
		"1", ".", ".1", name, name + ".", name + ".01", name + ".+1", name + ".-1", name + ".1.1", name + ".99",
		name + ".18446744073709551615", name + ".18446744073709551616",
		name[:len(name)-1] + ".1", "x" + name[1:] + ".1", "g" + name[1:] + ".1", strings.ToLower(name) + ".1",
		name + "A.1", "../" + name + ".1", session[1] + ".1", id + " x",
		foreign, strings.Repeat("A", 8000),
	} {
		if a := e.do("GET", "/", "", append(session, "Accept", "text/event-stream", "Last-Event-ID",
			last)...); a.status != http.StatusBadRequest || strings.Contains(a.body, "progress\"") {
			t.Errorf("%.40q: %s", last, a)
		}
	}
	a := e.do("GET", "/", "", append(other, "Accept", "text/event-stream", "Last-Event-ID", id)...)
	must.CheckEqual(t, a.status, http.StatusBadRequest, a)
	if a := e.do("GET", "/", "", append(session, "Accept", "text/event-stream", "Last-Event-ID", id, "Last-Event-ID",
		id)...); a.status != http.StatusBadRequest {
		t.Errorf("twice: %s", a)
	}
	close(e.steps)
	wantAnswer(t, frames(t, e.resume(session, id), everything), 3)
}

// Rules T11, T12: a new connection replaces the previous one of the stream, also the first one, which is still open.
func TestNewerResumeTakesOver(t *testing.T) {
	e := newStepping(t)
	session := e.session("2025-11-25")
	opened := make(chan *http.Response)
	go func() { opened <- e.open(t.Context(), "POST", "/", stepCall, session...) }()
	e.steps <- 2
	last := <-opened
	id := frames(t, last, 3)[1].ID
	for range 2 {
		newer := e.resume(session, id)
		rest := wiretest.ReadEvents(last.Body).Take(everything)
		must.CheckEqual(t, len(rest), 0, "the older connection goes", rest)
		got := frames(t, newer, 1)
		must.Equal(t, got[0].Seq(), "2", got)
		last = newer
	}
	close(e.steps)
	wantAnswer(t, wiretest.ReadEvents(last.Body).Take(everything), 3)
}

// Events beyond the bound are purged, oldest first. A resume that would miss purged events is rejected.
func TestResumeOfAPurgedStreamIsRejected(t *testing.T) {
	e := newStepping(t)
	session := e.session("2025-06-18")
	got := e.begin(session, 2)
	e.steps <- 999
	e.steps <- 0                                                            // all steps have been reported
	wantNumbered(t, frames(t, e.resume(session, got[0].ID), 1000), 2, 1001) // 2 to 1001 are stored
	e.steps <- 1
	e.steps <- 0
	a := e.do("GET", "/", "", append(session, "Accept", "text/event-stream", "Last-Event-ID", got[0].ID)...)
	code, id := a.code(t)
	must.CheckThat(t, a.status == http.StatusGone && code != 0 && (id == "" || id == "null") &&
		strings.Contains(a.body, "no longer stored"), "%s", a)
	resp := e.resume(session, got[1].ID)
	close(e.steps)
	wantAnswer(t, frames(t, resp, everything), 1003)
}

// A result that is too large to store cannot be resumed.
func TestAMissingResultIsReportedOnResume(t *testing.T) {
	e := newEndpoint(t, func(s *server.Server) {
		server.AddTool(s, mcp.Tool{Name: "huge"}, func(ctx context.Context, _ struct{}) (string, error) {
			_ = server.Progress(ctx, 1, 1, "")
			return strings.Repeat("x", 5<<20), nil
		})
	})
	session := e.session("2025-11-25")
	got := frames(t, e.open(t.Context(), "POST", "/",
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"huge","_meta":{"progressToken":1}}}`,
		session...), everything)
	if len(got) != 3 || got[2].ID != "" || len(got[2].Data) < 5<<20 {
		t.Fatalf("%d events, and the last one has the id %q", len(got), got[len(got)-1].ID)
	}
	for _, f := range got[:2] {
		a := e.do("GET", "/", "", append(session, "Accept", "text/event-stream", "Last-Event-ID", f.ID)...)
		must.CheckEqual(t, a.status, http.StatusGone, f, a.String())
	}
}

// The standalone stream of a session can be resumed: the client receives the changes that happened
// while it was disconnected.
func TestTheStandaloneStreamCanBeResumed(t *testing.T) {
	for _, r := range resumableRevisions {
		e := newEndpoint(t)
		session := e.session(r)
		watched := append(session, "Accept", "text/event-stream", "X-Watched", "1")
		ctx, hangUp := context.WithCancel(t.Context())
		resp := e.open(ctx, "GET", "/", "", watched...)
		e.server.RemoveTool("big")
		n := 1
		if r == "2025-11-25" {
			n++
		}
		got := frames(t, resp, n)
		hangUp()
		<-(<-e.arrived).Done()
		e.server.RemoveTool("count")
		last := got[len(got)-1]
		must.Equal(t, last.Seq(), "1", r, got)
		must.Contains(t, last.Data, "tools/list_changed", r, got)
		resp = e.open(t.Context(), "GET", "/", "", append(session, "Accept", "text/event-stream", "Last-Event-ID",
			last.ID)...)
		if got := frames(t, resp, 1); got[0].Seq() != "2" || !strings.Contains(got[0].Data, "tools/list_changed") {
			t.Errorf("%s: it goes on with %v", r, got)
		}
		// Another connection replaces it, and it ends.
		third := e.open(t.Context(), "GET", "/", "", append(session, "Accept", "text/event-stream")...)
		defer third.Body.Close()
		rest := wiretest.ReadEvents(resp.Body).Take(everything)
		must.CheckEqual(t, len(rest), 0, r, "then came", rest)
		a := e.do("GET", "/", "", append(session, "Accept", "text/event-stream", "Last-Event-ID", last.ID)...)
		must.CheckEqual(t, a.status, http.StatusGone, r, "resumed after it is over", a)
	}
}

// The events of a session are deleted when it ends.
func TestAnEndedSessionStoresNoEvents(t *testing.T) {
	kept := newKept()
	e := newStepping(t)
	e.server.Store = kept
	session := e.session("2025-11-25")
	id := e.begin(session, 2)[1].ID
	got := kept.streams(t)
	must.CheckThat(t, got != 0, "nothing is held while the session lasts")
	a := e.do("DELETE", "/", "", session...)
	must.Equal(t, a.status, http.StatusNoContent, a)
	if a := e.do("GET", "/", "", append(session, "Accept", "text/event-stream", "Last-Event-ID",
		id)...); a.status != http.StatusNotFound {
		t.Errorf("%s", a)
	}
	eventually(t, func() bool { return kept.streams(t) == 0 })
}

// A stream has one open connection, however often the client resumes it.
func TestManyResumesUseOneConnection(t *testing.T) {
	e := newStepping(t)
	session := e.session("2025-11-25")
	id := e.begin(session, 100)[1].ID
	e.steps <- 0
	var resuming sync.WaitGroup
	var over atomic.Int32
	for range 30 {
		resuming.Go(func() {
			defer over.Add(1)
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, e.http.URL, nil)
			req.Header = http.Header{"Accept": {"text/event-stream"}, "Mcp-Session-Id": {session[1]},
				"Last-Event-Id": {id}}
			resp, err := e.http.Client().Do(req)
			if err != nil { // the connection was cut before the response
				return
			}
			defer resp.Body.Close()
			for i, f := range frames(t, resp, everything) { // cut at any point, without a gap before it
				if f.Seq() != strconv.Itoa(i+2) {
					t.Errorf("event %d is %v", i+2, f)
					return
				}
			}
		})
	}
	eventually(t, func() bool { return over.Load() == 29 })
	close(e.steps)
	resuming.Wait()
	wantAnswer(t, frames(t, e.resume(session, id), everything), 101)
}

// Events are stored for a limited time, and so is the state of the standalone stream.
func TestStoredEventsExpire(t *testing.T) {
	for after, want := range map[time.Duration]int{4 * time.Minute: 200, 6 * time.Minute: 400} {
		synctest.Test(t, func(t *testing.T) {
			s := httpServer()
			session := begin(t, s)
			inBubble(s, http.MethodPost, wiretest.Initialized, session...)
			stream := append(session, "Accept", "application/json, text/event-stream")
			call, own := openIn(t, s, "POST", "/", countCall, stream...), openIn(t, s, "GET", "/", "", stream...)
			ids := map[string]string{"the stream of a call": call.frames()[1].ID,
				"the standalone stream": own.frames()[0].ID}
			own.end()
			time.Sleep(after)
			for what, id := range ids {
				if x := openIn(t, s, "GET", "/", "", append(stream, "Last-Event-ID", id)...).end(); x.status() != want {
					t.Errorf("%s after %v: %d %s", what, after, x.status(), x.body())
				}
			}
			must.Check(t, s.Shutdown(t.Context()))
		})
	}
}

// A connection can end at any byte, and the client can resume the stream anywhere.
func TestEachEventOfAStreamThatIsCutFiftyTimesArrivesOnce(t *testing.T) {
	memory := store.NewMemory()
	replicatest.CutCall(t, func() store.Store { return memory })
}
