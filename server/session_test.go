package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

const pingBody = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

// inBubble serves requests without a network, so that hours pass at once in a bubble of package
// synctest.
func inBubble(s *server.Server, method, body string, header ...string) *httptest.ResponseRecorder {
	return wiretest.Record(s, method, "http://localhost/", body, header...)
}

// begin starts a session and returns the header that names it.
func begin(t *testing.T, s *server.Server) []string {
	t.Helper()
	rec := inBubble(s, http.MethodPost, fmt.Sprintf(wiretest.Initialize, "2025-11-25"))
	if rec.Code != http.StatusOK {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	return []string{"Mcp-Session-Id", rec.Header().Get("Mcp-Session-Id")}
}

// kept is a store that records its keys.
type kept struct {
	*store.Memory
	mu    sync.Mutex
	keys  map[string]struct{}
	heads map[store.StreamKey]uint64
}

func newKept() *kept {
	return &kept{Memory: store.NewMemory(store.MemoryOptions{}), keys: make(map[string]struct{}), heads: make(map[store.StreamKey]uint64)}
}

func (k *kept) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	k.mu.Lock()
	k.keys[key] = struct{}{}
	k.mu.Unlock()
	return k.Memory.Put(ctx, key, value, opt)
}

func (k *kept) Append(ctx context.Context, key store.StreamKey, seq uint64, entry []byte, opt store.AppendOptions) error {
	k.mu.Lock()
	k.heads[key] = seq
	k.mu.Unlock()
	return k.Memory.Append(ctx, key, seq, entry, opt)
}

// streams returns the number of streams with stored events.
func (k *kept) streams(t *testing.T) (n int) {
	t.Helper()
	k.mu.Lock()
	heads := maps.Clone(k.heads)
	k.mu.Unlock()
	for key, seq := range heads {
		if _, err := k.ReadAfter(t.Context(), key, seq); err == nil {
			n++
		} else if !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
	}
	return n
}

// left returns the number of entries.
func (k *kept) left(t *testing.T) (n int) {
	t.Helper()
	k.mu.Lock()
	keys := slices.Collect(maps.Keys(k.keys))
	k.mu.Unlock()
	for _, key := range keys {
		if _, err := k.Get(t.Context(), key); err == nil {
			n++
		} else if !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
	}
	return n
}

// Rule T8.
func TestSessionIDsAreVisibleASCII(t *testing.T) {
	e := newEndpoint(t)
	seen := make(map[string]bool)
	for range 100 {
		id := e.session("2025-11-25")[1]
		if !regexp.MustCompile(`^[\x21-\x7e]{22,128}$`).MatchString(id) || seen[id] {
			t.Fatalf("%q", id)
		}
		seen[id] = true
	}
}

// Rule T8: a missing session id is answered with 400, an unknown one with 404.
func TestMissingAndUnknownSessionsAreRejected(t *testing.T) {
	e := newEndpoint(t)
	session := e.session("2025-11-25")
	for _, tc := range []struct {
		method, body string
		header       []string
		status       int
	}{
		{"POST", pingBody, nil, 400},
		{"POST", pingBody, []string{"MCP-Protocol-Version", "2025-11-25"}, 400},
		{"POST", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, nil, 400},
		{"GET", "", []string{"Mcp-Session-Id", session[1], "Accept", "application/json"}, 406},
		{"DELETE", "", nil, 400},
		{"DELETE", "", []string{"MCP-Protocol-Version", "2025-11-25"}, 400},
	} {
		if a := e.do(tc.method, "/", tc.body, tc.header...); a.status != tc.status {
			t.Errorf("%s with %q: %s", tc.method, tc.header, a)
		}
	}
	for _, id := range []string{"AAAAAAAAAAAAAAAAAAAAAA", "x", "../../etc/passwd", session[1] + "x", session[1][1:], strings.ToUpper(session[1]), strings.Repeat("A", 10_000), "anonymous/session/" + session[1]} {
		for method, body := range map[string]string{"POST": pingBody, "GET": "", "DELETE": ""} {
			a := e.do(method, "/", body, "Mcp-Session-Id", id, "Accept", "application/json, text/event-stream")
			if a.status != 404 || method == "POST" && !strings.Contains(a.body, `"id":1`) {
				t.Errorf("%s of the session %.40q: %s", method, id, a)
			}
		}
		if a := e.do("POST", "/", fmt.Sprintf(wiretest.Initialize, "2025-11-25"), "Mcp-Session-Id", id); a.status != 404 {
			t.Errorf("initialize within %.40q: %s", id, a)
		}
	}
	if a := e.do("POST", "/", pingBody, session...); a.status != 200 {
		t.Errorf("the one that there is: %s", a)
	}
}

func TestDeleteEndsTheSession(t *testing.T) {
	e := newEndpoint(t)
	session := e.session("2025-11-25")
	stream := wiretest.Stream(t, e.open(t.Context(), "GET", "/", "", append(session, "Accept", "text/event-stream")...))
	called := make(chan answer)
	go func() {
		called <- e.do("POST", "/", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}`, session...)
	}()
	w := <-e.waiting
	if a := e.do("DELETE", "/", "", session...); a.status/100 != 2 || a.body != "" {
		t.Errorf("%s", a)
	}
	<-w.ctx.Done()
	<-called
	stream.Ends(t)
	for _, method := range []string{"POST", "GET", "DELETE"} {
		body := ""
		if method == "POST" {
			body = pingBody
		}
		if a := e.do(method, "/", body, append(session, "Accept", "application/json, text/event-stream")...); a.status != 404 {
			t.Errorf("%s: %s", method, a)
		}
	}
}

// Rule T11: a session has one standalone stream; a second GET replaces it.
func TestASecondStreamReplacesTheFirst(t *testing.T) {
	e := newEndpoint(t)
	session := append(e.session("2025-11-25"), "Accept", "text/event-stream")
	first := wiretest.Stream(t, e.open(t.Context(), "GET", "/", "", session...))
	second := wiretest.Stream(t, e.open(t.Context(), "GET", "/", "", session...))
	first.Ends(t)
	if a := e.do("DELETE", "/", "", session...); a.status/100 != 2 {
		t.Errorf("%s", a)
	}
	second.Ends(t)
}

// Rules T11, T12: the messages of a call are sent on its stream only.
func TestResponsesAreNeverOnTheStandaloneStream(t *testing.T) {
	e := newEndpoint(t)
	session := e.session("2025-11-25")
	standalone := wiretest.Stream(t, e.open(t.Context(), "GET", "/", "", append(session, "Accept", "text/event-stream", "Last-Event-ID", "")...))
	stream := wiretest.Stream(t, e.open(t.Context(), "POST", "/", countCall, session...))
	for range 4 {
		if stream.Data() == "" {
			t.Fatal("the call's stream is short of messages")
		}
	}
	stream.Ends(t)
	wiretest.Stream(t, e.open(t.Context(), "GET", "/", "", append(session, "Accept", "text/event-stream")...)) // ends the other stream
	standalone.Ends(t)
}

func TestABusySessionIsToldToRetry(t *testing.T) {
	const most = 128
	e := newEndpoint(t)
	session := e.session("2025-11-25")
	var calls sync.WaitGroup
	blocked := make([]waiting, 0, most)
	for i := range most {
		calls.Go(func() {
			a := e.do("POST", "/", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"wait"}}`, i), session...)
			if !strings.Contains(a.body, "waited") {
				t.Errorf("%s", a)
			}
		})
	}
	for range most {
		blocked = append(blocked, <-e.waiting)
	}
	a := e.do("POST", "/", `{"jsonrpc":"2.0","id":"one more","method":"tools/list"}`, session...)
	if code, id := a.code(t); a.status != 429 || code == 0 || id != `"one more"` || a.header.Get("Retry-After") == "" {
		t.Errorf("%s", a)
	}
	// Other sessions are not affected, and neither are requests without a handler.
	if a := e.do("POST", "/", pingBody, e.session("2025-11-25")...); a.status != 200 {
		t.Errorf("another session: %s", a)
	}
	if a := e.do("POST", "/", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"unknown"}}`, session...); a.status != 202 {
		t.Errorf("a notification: %s", a)
	}
	for _, w := range blocked {
		close(w.release)
	}
	calls.Wait()
	if a := e.do("POST", "/", pingBody, session...); a.status != 200 {
		t.Errorf("afterwards: %s", a)
	}
}

func TestTooManySessionsAreRejected(t *testing.T) {
	for name, limits := range map[string]server.Limits{"of an address": {SessionsPerAddress: 3}, "in all": {Sessions: 3}} {
		e := newEndpoint(t, func(s *server.Server) { s.Limits = limits })
		var last []string
		for range 3 {
			last = e.session("2025-11-25")
		}
		a := e.do("POST", "/", fmt.Sprintf(wiretest.Initialize, "2025-11-25"))
		if code, id := a.code(t); a.status != 503 || code == 0 || id != "0" || a.header.Get("Mcp-Session-Id") != "" || a.header.Get("Retry-After") == "" {
			t.Errorf("%s: %s", name, a)
		}
		if a := e.do("DELETE", "/", "", last...); a.status/100 != 2 {
			t.Errorf("%s: %s", name, a)
		}
		e.session("2025-11-25")
	}
}

// All addresses of one IPv6 network count as one, because one client can use them all.
func TestAnIPv6NetworkCountsAsOneAddress(t *testing.T) {
	s := &server.Server{Logger: slog.New(slog.DiscardHandler), Limits: server.Limits{SessionsPerAddress: 2}}
	from := func(address string) int {
		return inBubble(s, http.MethodPost, fmt.Sprintf(wiretest.Initialize, "2025-11-25"), "RemoteAddr", address).Code
	}
	for i, want := range []int{200, 200, 503, 503} {
		if got := from(fmt.Sprintf("[2001:db8:1:2::%x]:%d", i+1, 1000+i)); got != want {
			t.Errorf("%d: %d, want %d", i, got, want)
		}
	}
	if got := from("[2001:db8:1:3::1]:1"); got != 200 {
		t.Errorf("another network: %d", got)
	}
}

// Rule T8: an expired session is unknown. It expires after 30 seconds without a completed handshake, and half
// an hour after its last use.
func TestSessionsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKept()
		s := &server.Server{Logger: slog.New(slog.DiscardHandler), KV: k, Log: k}
		status := func(session []string) int {
			return inBubble(s, http.MethodPost, pingBody, session...).Code
		}
		abandoned, used := begin(t, s), begin(t, s)
		time.Sleep(20 * time.Second)
		if rec := inBubble(s, http.MethodPost, wiretest.Initialized, used...); rec.Code != 202 {
			t.Fatal(rec.Code)
		}
		time.Sleep(10 * time.Second)
		if got := status(abandoned); got != 404 {
			t.Errorf("after 30 seconds: %d", got)
		}
		for range 5 {
			time.Sleep(29 * time.Minute)
			if got := status(used); got != 200 {
				t.Fatalf("used 29 minutes ago: %d", got)
			}
		}
		time.Sleep(30 * time.Minute)
		if got := status(used); got != 404 {
			t.Errorf("after half an hour: %d", got)
		}
		if n := k.left(t); n != 0 {
			t.Errorf("%d entries are left", n)
		}
	})
}

// An open stream or call counts as use of the session.
func TestASessionLivesWhileItsStreamIsOpen(t *testing.T) {
	for name, body := range map[string]string{
		"a stream": "",
		"a call":   `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKept()
				s := httpServer()
				addWait(s)
				s.KV, s.Log, s.KeepAlive = k, k, -1 // no pings, because the client does not answer
				session := begin(t, s)
				inBubble(s, http.MethodPost, wiretest.Initialized, session...)
				method := http.MethodPost
				if body == "" {
					method = http.MethodGet
				}
				ctx, cancel := context.WithCancel(t.Context())
				req := httptest.NewRequest(method, "/", strings.NewReader(body)).WithContext(ctx)
				req.Host = "localhost"
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("Mcp-Session-Id", session[1])
				done := make(chan struct{})
				go func() {
					s.ServeHTTP(httptest.NewRecorder(), req)
					close(done)
				}()
				time.Sleep(5 * time.Hour)
				if rec := inBubble(s, http.MethodPost, pingBody, session...); rec.Code != 200 {
					t.Errorf("after five hours: %d", rec.Code)
				}
				cancel()
				if body != "" { // a disconnect does not end the call
					inBubble(s, http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, session...)
				}
				<-done
				time.Sleep(31 * time.Minute)
				if n := k.left(t); n != 0 {
					t.Errorf("%d entries are left", n)
				}
			})
		})
	}
}

// An abandoned session leaves an entry in the store until it expires, and nothing else.
func TestAbandonedSessionsAreReclaimed(t *testing.T) {
	for name, use := range map[string]func(t *testing.T, s *server.Server, session []string){
		"after initialize": func(*testing.T, *server.Server, []string) {},
		"after a POST only": func(t *testing.T, s *server.Server, session []string) {
			if rec := inBubble(s, http.MethodPost, pingBody, session...); rec.Code != 200 {
				t.Fatal(rec.Code)
			}
		},
		"after the handshake": func(t *testing.T, s *server.Server, session []string) {
			if rec := inBubble(s, http.MethodPost, wiretest.Initialized, session...); rec.Code != 202 {
				t.Fatal(rec.Code)
			}
		},
		"after a call": func(t *testing.T, s *server.Server, session []string) {
			inBubble(s, http.MethodPost, wiretest.Initialized, session...)
			if rec := inBubble(s, http.MethodPost, countCall, session...); !strings.Contains(rec.Body.String(), "done") {
				t.Fatal(rec.Body)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKept()
				s := httpServer()
				s.KV, s.Log = k, k
				for range 20 {
					use(t, s, begin(t, s))
				}
				time.Sleep(20 * time.Second) // the lease of the replica expires
				if n := k.left(t); n != 20 {
					t.Errorf("%d entries", n)
				}
				time.Sleep(30 * time.Minute)
				if n := k.left(t); n != 0 {
					t.Errorf("%d entries are left", n)
				}
			}) // fails if a goroutine is left
		})
	}
}

// A client whose connection is cut during a stream and a call leaves no goroutine and no connection once
// the call has ended.
func TestSessionOfAKilledConnectionIsReclaimed(t *testing.T) {
	e := newEndpoint(t)
	before := runtime.NumGoroutine()
	var blocked []waiting
	for range 5 {
		session := e.session("2025-11-25")
		for i, request := range []string{
			"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n",
			"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n",
		} {
			conn := e.connect()
			fmt.Fprintf(conn, "%sX-Watched: 1\r\nMcp-Session-Id: %s\r\n", request, session[1])
			body := ""
			if i == 1 {
				body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait","_meta":{"progressToken":1}}}`
				fmt.Fprintf(conn, "Content-Length: %d\r\n", len(body))
			}
			fmt.Fprintf(conn, "\r\n%s", body)
			if line := readLine(t, conn); !strings.HasPrefix(line, "HTTP/1.1 200") {
				t.Fatal(line)
			}
			if i == 1 {
				blocked = append(blocked, <-e.waiting)
			}
			_ = conn.SetLinger(0) // close by reset
			conn.Close()
			<-(<-e.arrived).Done() // the server has noticed
		}
	}
	for _, w := range blocked {
		if w.ctx.Err() != nil {
			t.Error("a call of a session was cancelled by the loss of its connection")
		}
		close(w.release)
		if err := <-w.ended; err != nil {
			t.Errorf("progress: %v", err)
		}
	}
	e.http.Client().CloseIdleConnections()
	eventually(t, func() bool { return runtime.NumGoroutine() <= before })
}

// 10,000 idle sessions, each used over HTTP, need no goroutines and at most 2 KiB each.
func TestIdleSessionsNeedLittleMemory(t *testing.T) {
	const n, most = 2_000, 2 << 10
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	s := httpServer()
	s.Limits.SessionsPerAddress, s.Limits.Sessions = 2*n, 2*n
	initialize := strings.Replace(fmt.Sprintf(wiretest.Initialize, "2025-11-25"), `"capabilities":{}`,
		`"capabilities":{"roots":{"listChanged":true},"sampling":{},"elicitation":{"form":{},"url":{}}}`, 1)
	one := func() {
		rec := inBubble(s, http.MethodPost, initialize)
		session := []string{"Mcp-Session-Id", rec.Header().Get("Mcp-Session-Id")}
		for _, body := range []string{wiretest.Initialized, pingBody} {
			if rec := inBubble(s, http.MethodPost, body, session...); rec.Code/100 != 2 {
				t.Fatalf("%d %s", rec.Code, rec.Body)
			}
		}
	}
	one()
	goroutines, before := runtime.NumGoroutine(), heap()
	for range n {
		one()
	}
	each := (heap() - before) / n
	t.Logf("%d bytes each", each)
	if each > most {
		t.Errorf("an idle session costs %d bytes, and may cost %d", each, most)
	}
	if now := runtime.NumGoroutine(); now > goroutines {
		t.Errorf("%d goroutines, %d before", now, goroutines)
	}
	runtime.KeepAlive(s)
}

// A long client description is not stored for the life of the session.
func TestLargeHandshakesAreStoredShortened(t *testing.T) {
	k := newKept()
	s := &server.Server{Logger: slog.New(slog.DiscardHandler), KV: k, Log: k}
	long := strings.Repeat("A", 3<<20)
	body := strings.Replace(fmt.Sprintf(wiretest.Initialize, "2025-11-25"), `"version":"1"`, `"version":"1","icons":[{"src":"data:image/png;base64,`+long+`"}]`, 1)
	if rec := inBubble(s, http.MethodPost, body); rec.Code != 200 || rec.Header().Get("Mcp-Session-Id") == "" {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	for key := range k.keys {
		if item, err := k.Get(t.Context(), key); err != nil || len(item.Value) > 1<<10 {
			t.Errorf("%d bytes, %v", len(item.Value), err)
		}
	}
	body = strings.Replace(fmt.Sprintf(wiretest.Initialize, "2025-11-25"), `"capabilities":{}`, `"capabilities":{"experimental":{"x":{"y":"`+long+`"}}}`, 1)
	if rec := inBubble(s, http.MethodPost, body); !strings.Contains(rec.Body.String(), "-32602") || rec.Header().Get("Mcp-Session-Id") != "" {
		t.Errorf("%d %.200s", rec.Code, rec.Body)
	}
}

// Rules T21, T23: a long call sends a comment every 15 seconds, and then the result.
func TestALongCallIsKeptAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := httpServer()
		calls := addWait(s)
		session := begin(t, s)
		done := make(chan *httptest.ResponseRecorder)
		go func() {
			done <- inBubble(s, http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}`, session...)
		}()
		w := <-calls
		time.Sleep(50 * time.Second)
		close(w.release)
		rec := <-done
		body := rec.Body.String()
		if rec.Header().Get("Content-Type") != "text/event-stream" || !regexp.MustCompile(`^id: \S+\.0\nretry: 1000\ndata: \n\n:\n\n:\n\n:\n\nid: \S+\.1\ndata: {`).MatchString(body) || !strings.Contains(body, "waited") {
			t.Errorf("%q", body)
		}
	})
}

// Rule U3: a client replaces a session that the server has forgotten, once, with an initialize request that
// does not carry the old id.
func TestAClientStartsANewSessionWhenItsSessionHasEnded(t *testing.T) {
	s := httpServer()
	var mu sync.Mutex
	var sessions []string // started sessions
	var within []string   // session ids of initialize requests
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(&spyWriter{w, func(id string) {
			mu.Lock()
			defer mu.Unlock()
			sessions = append(sessions, id)
			within = append(within, r.Header.Get("Mcp-Session-Id"))
		}}, r)
	}))
	defer endpoint.Close()
	defer s.Shutdown(t.Context())
	d := client.Dialer{Revision: mcp.V20251125, Logger: slog.New(slog.DiscardHandler)}
	c, err := d.Dial(t.Context(), client.URL(endpoint.URL))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	echo := func() {
		t.Helper()
		if text, err := client.CallTool[string](t.Context(), c, "echo", map[string]any{"text": "hi"}); err != nil || text != "hi" {
			t.Errorf("%q, %v", text, err)
		}
	}
	echo()
	for range 2 {
		mu.Lock()
		id := sessions[len(sessions)-1]
		mu.Unlock()
		if rec := inBubble(s, http.MethodDelete, "", "Mcp-Session-Id", id); rec.Code/100 != 2 {
			t.Fatal(rec.Code)
		}
		var calls sync.WaitGroup
		for range 8 {
			calls.Go(echo)
		}
		calls.Wait()
	}
	mu.Lock()
	defer mu.Unlock()
	if len(sessions) != 3 || strings.Join(within, "") != "" {
		t.Errorf("%d sessions were begun, with %q", len(sessions), within)
	}
}

// spyWriter records the sessions that a server starts.
type spyWriter struct {
	http.ResponseWriter
	began func(id string)
}

func (w *spyWriter) WriteHeader(status int) {
	if id := w.Header().Get("Mcp-Session-Id"); id != "" {
		w.began(id)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *spyWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
