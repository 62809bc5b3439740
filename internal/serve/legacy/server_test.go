package legacy

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/spec"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

func codeOf(t *testing.T, raw []byte) int64 {
	t.Helper()
	m, err := jsonrpc.Parse(raw, jsonrpc.Limits{})
	switch {
	case err != nil:
		t.Fatalf("%v: %q", err, raw)
	case m.Err != nil:
		return m.Err.Code
	}
	return 0
}

func TestHandshakeAgreesOnARevision(t *testing.T) {
	for offered, want := range map[string]mcp.Revision{
		"2024-11-05": mcp.V20241105, "2025-03-26": mcp.V20250326, "2025-06-18": mcp.V20250618,
		"2025-11-25": mcp.V20251125,
		"2026-07-28": mcp.V20251125, "1999-01-01": mcp.V20251125, "": mcp.V20251125,
	} {
		server, _ := newServer()
		s := server.NewSession(principal.Anonymous)
		out := serve(t.Context(), s, parse(t, initialize(offered)), nil)
		var got struct{ Result mcp.InitializeResult }
		err := json.Unmarshal(out, &got)
		must.CheckThat(t, err == nil && got.Result.ProtocolVersion == want && s.Revision == want && s.Initialized(),
			"%q: %s", offered, out)
		must.Check(t, spec.ValidateMessage(want, out, mcp.MethodInitialize))
	}
}

func TestMalformedHandshakeCanBeRepeated(t *testing.T) {
	server, _ := newServer()
	s := server.NewSession(principal.Anonymous)
	for _, params := range []string{
		``,
		`,"params":{}`,
		`,"params":{"clientInfo":{"name":"c","version":"1"},"capabilities":{}}`,
		`,"params":{"protocolVersion":20251125,"clientInfo":{"name":"c","version":"1"},"capabilities":{}}`,
		`,"params":{"protocolVersion":"2025-11-25","capabilities":{}}`,
		`,"params":{"protocolVersion":"2025-11-25","clientInfo":"c","capabilities":{}}`,
		`,"params":{"protocolVersion":"2025-11-25","clientInfo":{"name":7,"version":"1"},"capabilities":{}}`,
		`,"params":{"protocolVersion":"2025-11-25","clientInfo":{"name":"c","version":"1"}}`,
		`,"params":{"protocolVersion":"2025-11-25","clientInfo":{"name":"c","version":"1"},"capabilities":[]}`,
		`,"params":{"protocolVersion":"2025-11-25","clientInfo":{"name":"c","version":"1"},"capabilities":{},` +
			`"ProtocolVersion":"2024-11-05"}`,
		`,"params":{"protocolVersion":"2025-11-25","clientInfo":{"name":"c","version":"1"},"capabilities":{"x":"` +
			strings.Repeat("y", maxCapabilities) + `"}}`,
	} {
		out := serve(t.Context(), s, parse(t, `{"jsonrpc":"2.0","id":1,"method":"initialize"`+params+`}`), nil)
		must.CheckThat(t, codeOf(t, out) == jsonrpc.CodeInvalidParams && !s.Initialized(), "%.200s: %s", params, out)
	}
	handshake(t, s, "2025-11-25")
}

func TestSessionBeginsWithItsHandshake(t *testing.T) {
	server, _ := newServer()
	s := server.NewSession(principal.Anonymous)
	serve := func(raw string) []byte { return serve(t.Context(), s, parse(t, raw), nil) }
	out := serve(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	must.CheckEqual(t, codeOf(t, out), jsonrpc.CodeInvalidRequest, "before the handshake", out)
	if out := serve(`{"jsonrpc":"2.0","id":"p","method":"ping"}`); string(out) != `{"jsonrpc":"2.0","id":"p","result":{}}` {
		t.Errorf("ping before the handshake: %s", out)
	}
	handshake(t, s, "2025-06-18")
	if out := serve(initialize("2024-11-05")); codeOf(t, out) != jsonrpc.CodeInvalidRequest ||
		s.Revision != mcp.V20250618 {
		t.Errorf("a second handshake: %s", out)
	}
	if out := serve(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); codeOf(t, out) != 0 {
		t.Errorf("after the handshake: %s", out)
	}
	for _, method := range []string{"server/discover", "subscriptions/listen", "no/such/method"} {
		out := serve(`{"jsonrpc":"2.0","id":1,"method":"` + method + `"}`)
		must.CheckEqual(t, codeOf(t, out), jsonrpc.CodeMethodNotFound, method, out)
	}
}

// A stored session lives for half an hour, and its client chooses its own description.
func TestLongClientInfoIsTruncated(t *testing.T) {
	server, _ := newServer()
	picture := "data:image/png;base64," + strings.Repeat("A", 1<<20)
	raw := `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
		`"capabilities":{"sampling":{}},"clientInfo":` +
		`{"name":"` + strings.Repeat("n", 250) + `éééé","title":"T","version":"1","icons":[{"src":"` + picture +
		`"}]}}}`
	s := server.NewSession(principal.Anonymous)
	out := serve(t.Context(), s, parse(t, raw), nil)
	must.That(t, codeOf(t, out) == 0 && s.Initialized(), "%s", out)
	size := len(s.State.Encode())
	must.CheckThat(t, size <= 1<<10, "%d bytes are stored", size)
	want := &mcp.Implementation{Name: strings.Repeat("n", 250) + "ééé", Title: "T", Version: "1"}
	must.CheckEqual(t, cmp.Diff(want, s.peer.Info), "")
	again, err := server.Resume(principal.Anonymous, s.State, &rpc.Inflight{})
	must.CheckThat(t, err == nil && again.peer.Info.Name == want.Name && again.peer.Capabilities.Sampling != nil,
		"%+v, %v", again, err)
}

func TestSessionLimitsRequestsInFlight(t *testing.T) {
	server, calls := newServer() // its limit is three
	s := newSession(t, server, "2025-11-25")
	done := make(chan []byte)
	var active []handling
	for i := range 3 {
		must.CheckThat(t, s.Inflight().Admits(3-i), "limit reached with %d requests", i)
		id := string(rune('1' + i))
		go func() {
			done <- serve(context.Background(), s, parse(t, `{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call"}`), nil)
		}()
		active = append(active, <-calls)
	}
	must.CheckThat(t, !s.Inflight().Admits(1), "limit not reached")
	out := serve(t.Context(), s, parse(t, `{"jsonrpc":"2.0","id":9,"method":"tools/call"}`), nil)
	must.CheckEqual(t, codeOf(t, out), jsonrpc.CodeInternalError, "one request more", out)
	s.Close()
	for _, h := range active {
		<-h.ctx.Done()
		out := <-done
		must.CheckEqual(t, len(out), 0, out)
	}
	if !s.Inflight().Admits(4) { // more than the limit count as the limit
		t.Error("limit reached without requests")
	}
}

func TestProgressTokenMustBeAnID(t *testing.T) {
	server, calls := newServer()
	s := newSession(t, server, "2025-11-25")
	for _, token := range []string{`1.5`, `{}`, `[]`, `true`} {
		out := serve(t.Context(), s, parse(t,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":`+token+`}}}`), nil)
		must.CheckEqual(t, codeOf(t, out), jsonrpc.CodeInvalidParams, token, out)
	}
	done := make(chan []byte)
	go func() {
		done <- serve(context.Background(), s,
			parse(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":"t"}}}`), nil)
	}()
	h := <-calls
	must.CheckThat(t, h.call.ProgressToken == jsonrpc.StringID("t") && h.call.Revision() == mcp.V20251125 &&
		h.call.Peer().Info.Name == "c", "%+v", h.call)
	close(h.release)
	<-done
}

// Middleware may keep pings waiting, so a session has a limit of them, too.
func TestSessionLimitsPings(t *testing.T) {
	server, _ := newServer()
	waiting, release := make(chan struct{}), make(chan struct{})
	server.Engine = rpc.NewEngine(rpc.Handlers{}, server.Logger, func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			if c.Method() == "ping" {
				select {
				case waiting <- struct{}{}:
					<-release
				case <-release:
				}
			}
			return next(ctx, c)
		}
	})
	s := newSession(t, server, "2025-11-25")
	replies := make(chan []byte)
	ping := func() []byte { return serve(t.Context(), s, parse(t, `{"jsonrpc":"2.0","id":1,"method":"ping"}`), nil) }
	for range maxPings {
		go func() { replies <- ping() }()
		<-waiting
	}
	go func() { replies <- ping() }()
	select {
	case out := <-replies:
		must.CheckEqual(t, codeOf(t, out), jsonrpc.CodeInternalError, out)
	case <-waiting:
		t.Fatal("one ping more is served")
	}
	close(release)
	for range maxPings {
		must.CheckEqual(t, string((<-replies)), `{"jsonrpc":"2.0","id":1,"result":{}}`)
	}
	out := ping()
	must.CheckEqual(t, codeOf(t, out), 0, "a ping after the others", out)
}
