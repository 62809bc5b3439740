//go:build !race

// The race detector allocates, so these tests run without it.

package bench

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// The limits for one tools/call of a typed echo tool, with validation.
const (
	maxHTTPAllocs    = 6 // without those of net/http
	maxHTTPBytes     = 1650
	maxEventBytes    = 150 // for the event that the log of a session keeps
	maxStreamAllocs  = 6
	maxClientAllocs  = 30 // our client and our server together, in memory
	maxMoreAllocs    = 4  // our client and our server over HTTP, more than the baseline
	maxForwardAllocs = 50 // a call through the gateway, without net/http on both sides

	maxLongForwardBytes = 32 << 10 // such a call, with a result of 200 KiB
	maxListAllocs       = 24       // tools/list of 200 tools, one of them with VisibleTo
)

// sink is a http.ResponseWriter that allocates nothing.
type sink struct {
	header http.Header
	status int
	n      int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(b []byte) (int, error) { s.n += len(b); return len(b), nil }

// Flush, SetReadDeadline and SetWriteDeadline are for http.ResponseController, as those of net/http.
func (s *sink) Flush()                           {}
func (s *sink) SetReadDeadline(time.Time) error  { return nil }
func (s *sink) SetWriteDeadline(time.Time) error { return nil }

// body is the body of a request that can be read repeatedly.
type body struct{ bytes.Reader }

func (*body) Close() error { return nil }

// handlerCost returns the allocations and bytes of one request in the handler, without net/http.
func handlerCost(t *testing.T, h http.Handler, m message) (allocs, size float64) {
	t.Helper()
	w := &sink{header: make(http.Header)}
	r := must.Get(http.NewRequest(http.MethodPost, "http://127.0.0.1/mcp", nil))(t)
	r.RemoteAddr = "127.0.0.1:1"
	for name, value := range m.header {
		r.Header.Set(name, value)
	}
	b := &body{}
	r.Body, r.ContentLength = io.NopCloser(b), int64(len(m.body))
	serve := func() {
		clear(w.header)
		w.status = 0
		b.Reset(m.body)
		h.ServeHTTP(w, r)
		must.Equal(t, w.status, http.StatusOK)
	}
	return cost(serve)
}

// cost returns the allocations and bytes of one run of f.
func cost(f func()) (allocs, size float64) {
	const runs = 1000
	allocs = testing.AllocsPerRun(runs, f)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return allocs, float64(after.TotalAlloc-before.TotalAlloc) / runs
}

func TestAllocationsOverHTTP(t *testing.T) {
	s := newServer()
	session := openSession(t, s)
	for _, c := range []struct {
		message
		maxBytes float64
	}{
		{modernCall, maxHTTPBytes},
		{session, maxHTTPBytes},
		{asEventStream(modernCall), maxHTTPBytes},
		{asEventStream(session), maxHTTPBytes + maxEventBytes},
	} {
		allocs, size := handlerCost(t, s, c.message)
		t.Logf("%s: %v allocations, %v bytes", c.name, allocs, size)
		if allocs > maxHTTPAllocs || size > c.maxBytes {
			t.Errorf("%s: %v allocations and %v bytes, the limits are %d and %v", c.name, allocs, size, maxHTTPAllocs,
				c.maxBytes)
		}
	}
}

// asEventStream returns m with a response that is an event stream. In a session, the server logs its event.
func asEventStream(m message) message {
	m.name += ", event stream"
	m.header = maps.Clone(m.header)
	m.header["Accept"] = "text/event-stream"
	return m
}

// A list that depends on the caller is made of encodings that are kept.
func TestAllocationsOfAListThatDependsOnTheCaller(t *testing.T) {
	for name, s := range map[string]*server.Server{"200 tools, one of them restricted": newRestricted(),
		"1,000 tools of two servers": newMerged()} {
		allocs, size := handlerCost(t, s, listMessage())
		t.Logf("%s: %v allocations, %v bytes", name, allocs, size)
		if allocs > maxListAllocs {
			t.Errorf("%s: %v allocations, the limit is %d", name, allocs, maxListAllocs)
		}
	}
}

func TestAllocationsOverStream(t *testing.T) {
	for _, m := range []message{modernCall, legacyCall} {
		peer := newStreamPeer(t, newServer(), m)
		allocs, _ := cost(func() { peer.roundTrip(t) })
		t.Logf("%s: %v allocations", m.name, allocs)
		if allocs > maxStreamAllocs {
			t.Errorf("%s: %v allocations, the limit is %d", m.name, allocs, maxStreamAllocs)
		}
	}
}

func TestAllocationsInMemory(t *testing.T) {
	c := mcptest.Dial(t, newServer())
	allocs, _ := cost(func() { callEcho(t, c) })
	t.Logf("%v allocations", allocs)
	if allocs > maxClientAllocs {
		t.Errorf("%v allocations, the limit is %d", allocs, maxClientAllocs)
	}
}

func TestAllocationsOfClientOverHTTP(t *testing.T) {
	call := baselineClient(t)
	baseline, _ := cost(func() { call(1) })
	for _, r := range []mcp.Revision{mcp.V20260728, mcp.V20251125} {
		endpoint := httptest.NewServer(newServer())
		defer endpoint.Close()
		c := must.Get((&client.Dialer{Revision: r}).Dial(t.Context(), client.URL(endpoint.URL)))(t)
		defer c.Close()
		allocs, _ := cost(func() { callEcho(t, c) })
		t.Logf("%s: %v allocations, %v more than the baseline", r, allocs, allocs-baseline)
		if allocs > baseline+maxMoreAllocs {
			t.Errorf("%s: %v allocations, the limit is %d more than the %v of the baseline", r, allocs, maxMoreAllocs,
				baseline)
		}
	}
}

// streamPeer is a minimal client over a byte stream.
type streamPeer struct {
	conn transport.Conn
	m    message
}

func newStreamPeer(t testing.TB, s *server.Server, m message) *streamPeer {
	t.Helper()
	near, far := transport.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.ServeConn(ctx, far) }()
	t.Cleanup(func() { cancel(); <-done })
	p := &streamPeer{near, m}
	if m.name != modernCall.name {
		p.send(t, initialize.body)
		p.receive(t)
		p.send(t, initialized.body)
	}
	return p
}

func (p *streamPeer) send(t testing.TB, msg []byte) {
	must.Do(t, p.conn.Write(context.Background(), msg))
}

func (p *streamPeer) receive(t testing.TB) []byte {
	msg := must.Get(p.conn.Read(context.Background()))(t)
	return msg
}

func (p *streamPeer) roundTrip(t testing.TB) {
	p.send(t, p.m.body)
	p.receive(t)
}

// The goroutine of an idle event stream waits for hours, below the functions that have received its request. Its stack
// grows once more if their variables need too much of it.
func TestAnIdleStreamNeedsNoMoreStackThanABareHandler(t *testing.T) {
	_, baseline := streamsCost(t, http.HandlerFunc(baselineOpenStream), func() message { return message{} })
	s := newServer()
	_, stack := streamsCost(t, s, func() message { return openSession(t, s) })
	t.Logf("%.0f bytes, the baseline needs %.0f", stack, baseline)
	must.CheckThat(t, stack <= baseline, "a stream needs %.0f bytes of stack, the baseline %.0f", stack, baseline)
}
