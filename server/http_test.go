package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// Rules T1, T2: the origin is checked for each method, in each era, on each of its endpoints. The error has no id and
// names the origin.
func TestOriginIsCheckedOnEveryMethod(t *testing.T) {
	e := newEndpoint(t)
	session := e.session("2025-11-25")
	modernBody, modernHeader := wiretest.Modern("7", mcp.MethodDiscover, "")
	events := []string{"Accept", "text/event-stream"}
	for what, request := range map[string]struct {
		method, path, body string
		header             []string
	}{
		"POST, stateless":  {"POST", "/", modernBody, modernHeader},
		"POST, handshake":  {"POST", "/", fmt.Sprintf(wiretest.Initialize, "2025-11-25"), nil},
		"POST, session":    {"POST", "/", pingBody, session},
		"POST, 2024-11-05": {"POST", e.pair("/").endpoint, pingBody, nil},
		"GET, session":     {"GET", "/", "", append(events, session...)},
		"GET, 2024-11-05":  {"GET", "/", "", events},
		"GET, stateless":   {"GET", "/", "", []string{"MCP-Protocol-Version", "2026-07-28"}},
		"DELETE":           {"DELETE", "/", "", session},
		"OPTIONS":          {"OPTIONS", "/", "", nil},
		"PUT":              {"PUT", "/", "", nil},
		"HEAD":             {"HEAD", "/", "", nil},
	} {
		for _, header := range [][]string{{"Origin", foreign}, {"Host", "evil.example"},
			{"Sec-Fetch-Site", "cross-site"}} {
			a := e.do(request.method, request.path, request.body, append(header, request.header...)...)
			code, id := a.code(t)
			must.CheckThat(t, a.status == http.StatusForbidden && id == "" && a.header.Get("Mcp-Session-Id") == "" &&
				(code == 0) == (request.method == "HEAD") &&
				(header[0] != "Origin" || code == 0 || strings.Contains(a.body, foreign)),
				"%s with %q: %s", what, header, a)
		}
	}
	// The session still exists after a foreign page has tried to end it.
	a := e.do("POST", "/", pingBody, append(session, "Origin", e.http.URL)...)
	must.CheckEqual(t, a.status, http.StatusOK, "its own origin", a)
}

// Rule T1.
func TestTheServerUsesItsAllowedOriginsAndHosts(t *testing.T) {
	e := newEndpoint(t, func(s *server.Server) {
		s.AllowedOrigins = []string{"https://app.example"}
		s.AllowedHosts = []string{"mcp.example"}
	})
	for _, tc := range []struct {
		host, origin string
		want         int
	}{
		{"mcp.example", "https://app.example", 200}, {"mcp.example:8443", "", 200},
		{"mcp.example", "https://mcp.example", 200},
		{"mcp.example", foreign, 403}, {"127.0.0.1", "https://app.example", 403}, {"localhost", "", 403},
	} {
		a := e.modern("1", mcp.MethodDiscover, "", "Host", tc.host, "Origin", tc.origin)
		must.CheckEqual(t, a.status, tc.want, tc.host, tc.origin, a)
	}
}

// A client that does not accept event streams receives no progress, and gets its result. A client that accepts
// nothing else gets its result as an event.
func TestTheResponseHasATypeThatTheClientAccepts(t *testing.T) {
	e := newEndpoint(t)
	body, header := modernCall(`"name":"count","arguments":{"to":3}`)
	for era, a := range map[string]answer{
		"modern": e.do("POST", "/", body, append(header, "Accept", "application/json")...),
		"legacy": e.do("POST", "/", countCall, append(e.session("2025-11-25"), "Accept", "application/json")...),
	} {
		must.CheckThat(t, a.status == 200 && a.header.Get("Content-Type") == "application/json" &&
			strings.Contains(a.body, `"text":"done"`), "%s: %s", era, a)
	}
	a := e.modern("1", mcp.MethodDiscover, "", "Accept", "text/event-stream")
	must.CheckThat(t, a.status == 200 && a.header.Get("Content-Type") == "text/event-stream" &&
		strings.HasPrefix(a.body, "event: message\ndata: {"), "%s", a)
}

// A response in JSON has no place for a question, so the question fails at once.
func TestClientsOfJSONCannotBeAsked(t *testing.T) {
	e := newEndpoint(t, func(s *server.Server) {
		server.AddTool(s, mcp.Tool{Name: "ask"}, func(ctx context.Context, _ struct{}) (string, error) {
			_, err := server.Roots(ctx)
			return fmt.Sprint(errors.Is(err, server.ErrCannotAsk)), nil
		})
	})
	initialize := strings.Replace(fmt.Sprintf(wiretest.Initialize, "2025-11-25"), `"capabilities":{}`,
		`"capabilities":{"roots":{}}`, 1)
	session := []string{"Mcp-Session-Id", e.do("POST", "/", initialize).header.Get("Mcp-Session-Id"), "Accept",
		"application/json"}
	e.do("POST", "/", wiretest.Initialized, session...)
	a := e.do("POST", "/", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask"}}`, session...)
	must.CheckContains(t, a.body, `"text":"true"`)
}

// Rule T6: 2026-07-28 has the method POST only, and no sessions.
func TestTheModernEraHasOnlyPOST(t *testing.T) {
	e := newEndpoint(t)
	session := e.session("2025-11-25")
	for _, method := range []string{"GET", "DELETE"} {
		for _, more := range [][]string{nil, session[:2], {"Accept", "text/event-stream"}, {"Last-Event-ID", "1"}} {
			a := e.do(method, "/", "", append([]string{"MCP-Protocol-Version", "2026-07-28"}, more...)...)
			must.CheckThat(t, a.status == 405 && a.header.Get("Allow") == "POST", "%s with %q: %s", method, more, a)
		}
	}
	a := e.modern("1", mcp.MethodDiscover, "", "Mcp-Session-Id", session[1], "Last-Event-ID", "7")
	must.CheckEqual(t, a.status, 200, a)
	must.CheckEqual(t, a.header.Get("Mcp-Session-Id"), "", a)
	if a := e.do("POST", "/", pingBody, session...); a.status != 200 {
		t.Errorf("the session: %s", a)
	}
	if a := e.do("PUT", "/", ""); a.status != 405 || a.header.Get("Allow") == "" {
		t.Errorf("PUT: %s", a)
	}
}

// Rule T14.
// An error of the call itself has status 200, even if it has the code of a request that is rejected before it runs.
func TestTheStatusSaysWhetherTheCallWasRejected(t *testing.T) {
	e := newEndpoint(t, func(s *server.Server) {
		server.AddPrompt(s, mcp.Prompt{Name: "p"}, func(context.Context, struct{}) (string, error) {
			return "", jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "of the handler")
		})
	})
	for members, want := range map[string]int{
		`"name":"echo","arguments":{"text":"x"}`: http.StatusOK,
		`"name":"unknown"`:                       http.StatusOK,
		`"name":"echo","requestState":"x"`:       http.StatusBadRequest,
		`"name":"echo","inputResponses":[]`:      http.StatusBadRequest,
	} {
		a := e.modern("1", mcp.MethodCallTool, members)
		must.CheckEqual(t, a.status, want, members, a)
		must.CheckContains(t, a.header.Get("Content-Type"), "application/json")
	}
	a := e.modern("1", mcp.MethodGetPrompt, `"name":"p"`)
	must.CheckEqual(t, a.status, http.StatusOK, a)
	must.CheckContains(t, a.body, "of the handler")
}

func TestAVersionThatNoSessionHasIsRejectedWithThoseThatExist(t *testing.T) {
	e := newEndpoint(t)
	const want = `unsupported protocol version \"1.0\" in the MCP-Protocol-Version header: sessions have one of ` +
		`2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05`
	for _, method := range []string{"POST", "GET", "DELETE"} {
		a := e.do(method, "/", pingBody, append(e.session("2025-11-25")[:2], "MCP-Protocol-Version", "1.0",
			"Accept", "application/json, text/event-stream")...)
		must.CheckEqual(t, a.status, 400, method, a)
		must.CheckContains(t, a.body, want, method, a)
	}
}

// Rule T7: an accepted notification or response gets status 202 without a body, any other 4xx.
func TestNotificationsAndResponsesAreAcceptedWithoutABody(t *testing.T) {
	e := newEndpoint(t)
	session := e.session("2025-11-25")
	const (
		notice   = `{"jsonrpc":"2.0","method":"notifications/whatever"}`
		response = `{"jsonrpc":"2.0","id":1,"result":{}}`
		failure  = `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}`
	)
	for _, tc := range []struct {
		what, body string
		header     []string
		status     int
	}{
		{"a session's notification", notice, session, 202},
		{"a session's response", response, session, 202},
		{"a session's error", failure, session, 202},
		{"a notification without a session", notice, nil, 400},
		{"a response without a session", response, nil, 400},
		{"a notification of an unknown session", notice, []string{"Mcp-Session-Id", "AAAAAAAAAAAAAAAAAAAAAA"}, 404},
		{"a response that is none", `{"jsonrpc":"2.0","id":1,"result":7}`, session, 400},
		{"a notification with odd params", `{"jsonrpc":"2.0","method":"x","params":[]}`, session, 400},
		{"a stateless notification", notice, []string{"MCP-Protocol-Version", "2026-07-28"}, 202},
		{"a stateless notification of an unknown version", notice, []string{"MCP-Protocol-Version", "2199-01-01"}, 400},
		{"a stateless response", response, []string{"MCP-Protocol-Version", "2026-07-28"}, 400},
		{"a stateless response in a session", response, []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Session-Id",
			session[1]}, 400},
	} {
		a := e.do("POST", "/", tc.body, tc.header...)
		must.CheckEqual(t, a.status, tc.status, tc.what, a)
		must.CheckEqual(t, a.body == "", tc.status == 202, tc.what, a)
		// The id belongs to a request of the server, so the error must not repeat it.
		_, id := a.code(t)
		must.CheckThat(t, id == "" || id == "null", "%s: the id is repeated: %s", tc.what, a)
	}
	e.alive()
}

// Rule J7: only sessions of 2025-03-26 have batches.
func TestBatchIsServedInTheOneRevisionThatHasIt(t *testing.T) {
	e := newEndpoint(t)
	session := e.session("2025-03-26")
	const (
		echo   = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"%[1]d"}}}`
		notice = `{"jsonrpc":"2.0","method":"notifications/whatever"}`
	)
	batch := "[" + fmt.Sprintf(echo, 2) + "," + notice + "," + fmt.Sprintf(echo, 1) + "]"
	a := e.do("POST", "/", batch, session...)
	want := `[{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"2"}]}},{"jsonrpc":"2.0","id":1,` +
		`"result":{"content":[{"type":"text","text":"1"}]}}]`
	must.CheckThat(t, a.status == 200 && a.body == want && a.header.Get("Content-Type") == "application/json", "%s", a)
	if a := e.do("POST", "/", "["+notice+","+notice+"]", session...); a.status != 202 || a.body != "" {
		t.Errorf("notifications only: %s", a)
	}
	counting := wiretest.Stream(t, e.open(t.Context(), "POST", "/", "["+countCall+"]", session...))
	for range 3 {
		must.CheckContains(t, counting.Data(), "notifications/progress")
	}
	data := counting.Data()
	must.CheckThat(t, strings.HasPrefix(data, `[{"jsonrpc":"2.0","id":1,"result"`), "%s", data)
	counting.Ends(t)
	if a := e.do("POST", "/", "["+fmt.Sprintf(wiretest.Initialize, "2025-03-26")+"]"); a.status != 400 ||
		a.header.Get("Mcp-Session-Id") != "" {
		t.Errorf("a handshake in a batch: %s", a)
	}
}

func TestBodiesAreBounded(t *testing.T) {
	const limit = 100_000
	e := newEndpoint(t, func(s *server.Server) { s.Limits.MaxMessage = limit })
	session := e.session("2025-11-25")
	for _, chunked := range []bool{false, true} {
		for size, want := range map[int]int{limit: 200, limit + 1: 413} {
			const begin = `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"`
			body := begin + strings.Repeat("x", size-len(begin)-3) + `"}}`
			req := wiretest.NewRequest(t.Context(), "POST", e.http.URL, body, session...)
			if chunked {
				req.ContentLength = -1
			}
			a := e.answer(req)
			if code, id := a.code(t); a.status != want || want == 413 && (code != -32600 || id != "" || !a.closed) {
				t.Errorf("%d bytes, chunked %v: %s", size, chunked, a)
			}
		}
	}
	a := e.do("POST", "/", pingBody, append(session, "Content-Encoding", "gzip")...)
	must.CheckEqual(t, a.status, http.StatusUnsupportedMediaType, a)
	must.CheckEqual(t, a.header.Get("Accept-Encoding"), "identity", a)
}

// Rule T20: closing the response cancels the request. A client may close its half of the connection and keep reading.
// It receives no further message, neither before nor after the first event.
func TestNoMessageIsSentForACancelledRequest(t *testing.T) {
	e := newEndpoint(t)
	watched, _ := modernCall(`"name":"wait"`)
	plain, header := wiretest.Modern("1", mcp.MethodCallTool, `"name":"wait"`)
	for _, body := range []string{plain, watched} {
		conn := e.connect()
		fmt.Fprint(conn, rawPost(body, header...))
		w := <-e.waiting
		_ = conn.CloseWrite()
		<-w.ctx.Done()
		<-w.ended
		raw, _ := io.ReadAll(conn)
		must.CheckThat(t, !strings.Contains(string(raw), `"id":1`) && !strings.Contains(string(raw), `"progress":2`),
			"after the cancellation came: %s", raw)
	}
}

// JSON-RPC 2.0 has the id null in the error of a request that cannot be read, and 2025-11-25 no longer does.
func TestTheIDNullExistsBefore20251125(t *testing.T) {
	e := newEndpoint(t)
	for version, want := range map[string]string{"2025-06-18": "null", "2025-11-25": "", "2026-07-28": "", "": "null"} {
		_, id := e.do("POST", "/", "hello", "MCP-Protocol-Version", version).code(t)
		must.CheckThat(t, id == want, "%q: id %q", version, id)
	}
}

// Rule J15.
func TestACancelledRequestOfASessionGetsNoResponse(t *testing.T) {
	e := newEndpoint(t)
	session := e.session("2025-11-25")
	const cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"changed my ` +
		`mind"}}`
	for accept, want := range map[string]answer{
		// the stream has no event
		"application/json, text/event-stream": {status: 200,
			header: http.Header{"Content-Type": {"text/event-stream"}}},
		"application/json": {status: 202},
	} {
		done := make(chan answer)
		go func() {
			done <- e.do("POST", "/", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}`,
				append(session, "Accept", accept)...)
		}()
		w := <-e.waiting
		a := e.do("POST", "/", cancel, session...)
		must.CheckEqual(t, a.status, 202, a)
		<-w.ctx.Done()
		if a := <-done; a.status != want.status || a.body != "" ||
			a.header.Get("Content-Type") != want.header.Get("Content-Type") {
			t.Errorf("%s: %s", accept, a)
		}
	}
	e.do("POST", "/", cancel, session...) // the call has ended
	e.alive()
}

// Rules T22, T23, T11: a response stream carries the notifications and the response of its own call, no
// requests, and headers that tell proxies not to buffer.
func TestTheResponseStreamBelongsToTheCall(t *testing.T) {
	e := newEndpoint(t)
	body, header := modernCall(`"name":"count","arguments":{"to":50}`)
	legacy := strings.Replace(countCall, `"to":3`, `"to":50`, 1)
	for era, resp := range map[string]*http.Response{
		"modern": e.open(t.Context(), "POST", "/", body, header...),
		"legacy": e.open(t.Context(), "POST", "/", legacy, e.session("2025-11-25")...),
	} {
		must.CheckThat(t, resp.Header.Get("X-Accel-Buffering") == "no" &&
			strings.Contains(resp.Header.Get("Cache-Control"), "no-cache"), "%s: %v", era, resp.Header)
		stream := wiretest.Stream(t, resp)
		const progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":%d,`
		for i := range 50 {
			data := stream.Data()
			must.That(t, strings.HasPrefix(data, fmt.Sprintf(progress, i+1)), "%s: %.200s", era, data)
		}
		must.CheckContains(t, stream.Data(), `"id":1,"result"`, era)
		stream.Ends(t)
	}
}

// counting returns a server that counts the runs of its handlers.
func counting(runs *atomic.Int64) *server.Server {
	s := httpServer()
	s.Middleware = wiretest.OnRootsChanged(func(context.Context) { runs.Add(1) })
	server.AddTool(s, mcp.Tool{Name: "run"}, func(context.Context, struct{}) (string, error) {
		runs.Add(1)
		return "", nil
	})
	server.AddExtension(s, server.Extension{
		ID: "com.example/x",
		Requests: map[string]func(context.Context, json.RawMessage) (any, error){"x/run": func(context.Context,
			json.RawMessage) (any, error) {
			runs.Add(1)
			return nil, nil
		}},
		Notifications: map[string]func(context.Context, json.RawMessage){"notifications/x": func(context.Context,
			json.RawMessage) {
			runs.Add(1)
		}},
	})
	return s
}

// A request with the name of a notification is no request of the protocol: its response is the error for an unknown
// method. A notification with the name of a request has no response. No handler runs.
func TestMessagesOfAnotherKindThanTheirNameRunNoHandler(t *testing.T) {
	var runs atomic.Int64
	requests, notifications := []string{"notifications/x", "notifications/unknown"}, []string{"x/run", "unknown"}
	for _, m := range revision.Methods() {
		if m.Notification {
			requests = append(requests, m.Name)
		} else {
			notifications = append(notifications, m.Name)
		}
	}
	onEverySurface(t, func() *server.Server { return counting(&runs) }, func(t *testing.T, s surface) {
		for i, name := range requests {
			must.CheckContains(t, s.ask(i+1, name, ""), `"code":-32601`, name)
		}
		params := map[string]string{mcp.MethodCallTool: `"name":"run"`}
		for _, name := range notifications {
			must.CheckEqual(t, s.notify(name, params[name]), "", name)
		}
		must.CheckEqual(t, runs.Swap(0), 0)
	})
}

// In a batch, too, only a notification completes the handshake. A session without one ends
// after 30 seconds.
func TestARequestInABatchDoesNotCompleteTheHandshake(t *testing.T) {
	const batch = `[{"jsonrpc":"2.0","id":1,"method":"notifications/initialized"}]`
	synctest.Test(t, func(t *testing.T) {
		s := httpServer()
		rec := inBubble(s, http.MethodPost, fmt.Sprintf(wiretest.Initialize, "2025-03-26"))
		session := []string{"Mcp-Session-Id", rec.Header().Get("Mcp-Session-Id")}
		if rec := inBubble(s, http.MethodPost, batch, session...); !strings.Contains(rec.Body.String(),
			`"code":-32601`) {
			t.Errorf("%s", rec.Body)
		}
		time.Sleep(31 * time.Second)
		if rec := inBubble(s, http.MethodPost, pingBody, session...); rec.Code != http.StatusNotFound {
			t.Errorf("the session did not end: %d %s", rec.Code, rec.Body)
		}
	})
}

// Rules T1, T2: a preflight of an allowed origin gets the allowed methods and headers only, and one of another origin
// gets no CORS headers.
func TestPreflightsOfAllowedOriginsAreAnswered(t *testing.T) {
	const page, own = "https://app.example.com",
		"content-type, Mcp-Method,mcp-param-region, x-other, mcp-param-a b,authorization"
	for origin, want := range map[string]int{
		page: 204, "https://evil.example": 403, "null": 403, page + ".evil.example": 403, "http://app.example.com": 403,
		"http://localhost:3000": 403, // a page of this machine, which has not been named
	} {
		s := quiet()
		s.AllowedOrigins = []string{page}
		w := inBubble(s, "OPTIONS", "", "Origin", origin, "Access-Control-Request-Method", "POST",
			"Access-Control-Request-Headers", own)
		must.CheckThat(t, w.Code == want && (want != 204 || w.Body.Len() == 0), "%s: %d %s", origin, w.Code, w.Body)
		for name, value := range map[string]string{
			"Access-Control-Allow-Origin":      page,
			"Access-Control-Allow-Methods":     "POST, GET, DELETE",
			"Access-Control-Allow-Headers":     "content-type, mcp-method, mcp-param-region, authorization",
			"Access-Control-Max-Age":           "600",
			"Access-Control-Allow-Credentials": "",
			"Vary":                             "Origin, Access-Control-Request-Headers",
		} {
			got := strings.Join(w.Header().Values(name), ", ")
			if want == 204 && got != value || want != 204 && name != "Vary" && got != "" {
				t.Errorf("%s: %s: %q, want %q", origin, name, got, value)
			}
		}
	}
	w := inBubble(quiet(), "OPTIONS", "", "Origin", "http://localhost:3000", "Access-Control-Request-Method", "POST")
	if w.Code != 403 || w.Header().Get("Vary") != "" {
		t.Errorf("without origins: %d, %v", w.Code, w.Header())
	}
}

// Rule T1: pages of an allowed origin can read responses, including errors.
func TestAllowedOriginsCanReadResponses(t *testing.T) {
	const page = "https://app.example.com"
	s := quiet()
	s.AllowedOrigins = []string{page}
	ask := func(method, body string, header ...string) http.Header {
		return inBubble(s, method, body, append(header, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method",
			mcp.MethodDiscover)...).Header()
	}
	for _, body := range []string{request(1, mcp.MethodDiscover, ""), "{"} {
		h := ask("POST", body, "Origin", page)
		exposed := h.Get("Access-Control-Expose-Headers")
		must.CheckThat(t, h.Get("Access-Control-Allow-Origin") == page && h.Get("Vary") == "Origin" &&
			strings.Contains(exposed, "Mcp-Session-Id") && strings.Contains(exposed, "WWW-Authenticate"),
			"%s: %v", body, h)
	}
	h := ask("POST", request(1, mcp.MethodDiscover, ""))
	must.CheckThat(t, h.Get("Access-Control-Allow-Origin") == "" && h.Get("Vary") == "Origin",
		"without an origin: %v", h)
	h = ask("OPTIONS", "", "Origin", "http://localhost")
	must.CheckThat(t, h.Get("Access-Control-Allow-Origin") == "" && h.Get("Allow") != "",
		"OPTIONS without a preflight: %v", h)
}

// streamsOf returns the event streams of a server in each revision: responses with progress and comments, the standalone
// stream and a resumed one of a session, and HTTP+SSE. All are silent for so long that they have hundreds of comments,
// and have texts with characters that some readers take for line breaks.
func streamsOf(t *testing.T) map[string]string {
	t.Helper()
	s := httpServer()
	defer shutdown(t, s)
	s.Limits.KeepAlive, s.Limits.SessionIdle = time.Second, time.Hour
	const silence = 280 * time.Second
	silentFor := make(chan time.Duration, 1)
	server.AddTool(s, mcp.Tool{Name: "slow"}, func(ctx context.Context, _ struct{}) (string, error) {
		_ = server.Progress(ctx, 1, 2, "NEL \u0085 and LS \u2028")
		time.Sleep(<-silentFor)
		_ = server.Progress(ctx, 2, 2, "PS \u2029")
		return "slow\u2028\u0085\u2029", nil
	})
	const call = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"slow","arguments":{},"_meta":{` +
		`"progressToken":"p"}}}`
	accept := []string{"Accept", "text/event-stream"}
	streams := make(map[string]string)
	for _, revision := range []string{"2025-03-26", "2025-06-18", "2025-11-25"} {
		rec := inBubble(s, http.MethodPost, fmt.Sprintf(wiretest.Initialize, revision), accept...)
		streams["session, handshake "+revision] = rec.Body.String()
		session := append([]string{"Mcp-Session-Id", rec.Header().Get("Mcp-Session-Id")}, accept...)
		inBubble(s, http.MethodPost, wiretest.Initialized, session...)
		answer := func(pong string) { inBubble(s, http.MethodPost, pong, session...) }
		standalone := listenTo(t, s, answer, session...)
		silentFor <- silence
		response := openIn(t, s, http.MethodPost, "/", fmt.Sprintf(call, 1), session...)
		<-response.done
		streams["session, response "+revision] = response.body()
		server.AddTool(s, mcp.Tool{Name: "new" + revision}, func(context.Context, struct{}) (string, error) { return "", nil })
		time.Sleep(time.Minute)
		standalone.end()
		streams["session, GET "+revision] = standalone.body()
		silentFor <- silence
		cut := openIn(t, s, http.MethodPost, "/", fmt.Sprintf(call, 2), session...)
		first := cut.frames()[0].ID
		cut.end()
		if first != "" {
			resumed := openIn(t, s, http.MethodGet, "/", "", append(session, "Last-Event-ID", first)...)
			<-resumed.done
			streams["session, resumed "+revision] = resumed.body()
		} else {
			time.Sleep(silence)
		}
		silentFor <- 0
		rec = inBubble(s, http.MethodPost, fmt.Sprintf(call, 3), session...)
		streams["session, quick response "+revision] = rec.Body.String()
	}

	var post func(message string)
	pair := listenTo(t, s, func(pong string) { post(pong) })
	endpoint := pair.frames()[0].Data
	post = func(message string) { wiretest.Record(s, http.MethodPost, "http://localhost"+endpoint, message) }
	post(fmt.Sprintf(wiretest.Initialize, "2024-11-05"))
	post(wiretest.Initialized)
	silentFor <- silence
	post(fmt.Sprintf(call, 1))
	time.Sleep(silence + time.Minute)
	pair.end()
	streams["HTTP+SSE"] = pair.body()

	body, header := modernCall(`"name":"slow","arguments":{}`)
	silentFor <- silence
	response := openIn(t, s, http.MethodPost, "/", body, append(header, accept...)...)
	<-response.done
	streams["modern, response"] = response.body()
	return streams
}

// The table of wiretest.Readers says what each of them does not read.
func TestEventStreamsAreReadByOtherSDKs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		streams := streamsOf(t)
		must.CheckThat(t, len(streams) >= 15, "%d streams", len(streams))
		for name, stream := range streams {
			var want []string
			for _, e := range wiretest.ReadEvents(strings.NewReader(stream)).Take(-1) {
				if e.Data != "" && e.Name != "endpoint" {
					want = append(want, e.Data)
				}
			}
			must.CheckThat(t, len(want) != 0 && !strings.Contains(stream, "retry"),
				"%s: %d messages in\n%.1000s", name, len(want), stream)
			for _, r := range wiretest.Readers {
				offered := r.Newest == "" || !strings.HasSuffix(name, "2025-11-25")
				if r.Pair && name == "HTTP+SSE" || r.Session && offered && strings.HasPrefix(name, "session") ||
					r.Modern && strings.HasPrefix(name, "modern") {
					if got, err := r.Messages(stream); err != nil || !slices.Equal(got, want) {
						t.Errorf("%s: %s reads %d of %d messages, %v, of\n%.1000s", name, r.Name, len(got), len(want), err,
							stream)
					}
				}
			}
		}
	})
}
