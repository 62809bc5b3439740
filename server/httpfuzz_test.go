package server_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/principal"
)

// fuzzedStatuses are the statuses of the server and those of net/http for requests that it cannot read.
var fuzzedStatuses = []int{
	http.StatusContinue, http.StatusOK, http.StatusAccepted, http.StatusNoContent, http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
	http.StatusNotAcceptable, http.StatusRequestTimeout, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusExpectationFailed, http.StatusTooManyRequests,
	http.StatusRequestHeaderFieldsTooLarge, http.StatusNotImplemented, http.StatusServiceUnavailable, http.StatusHTTPVersionNotSupported,
}

const fuzzedToken = "correct-token"

// FuzzHTTPHandler sends any bytes to a server that requires a token. The server does not panic, answers with known
// statuses, ends, and serves a call only if a request has the token.
func FuzzHTTPHandler(f *testing.F) {
	const modern = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"a"},` + wiretest.Meta + `}}`
	post := func(header, body string) []byte {
		return []byte("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n" + header + "\r\n" + body)
	}
	const bearer = "Authorization: Bearer " + fuzzedToken + "\r\n"
	const named = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n"
	const handshake = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	for _, raw := range [][]byte{
		post(bearer+named, modern), post(named, modern), post("Authorization: Bearer correct-tokem\r\n"+named, modern), post(bearer, handshake), post(bearer+"Accept: text/event-stream\r\n", handshake), post("", handshake),
		post(bearer+"Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n"), post(bearer+"Content-Encoding: gzip\r\n", modern), post(bearer+"Origin: https://evil.example\r\n"+named, modern),
		append(post(bearer, handshake), post("", modern)...), post(bearer+"Expect: 100-continue\r\n"+named, modern),
		[]byte("GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n" + bearer + "\r\n"), []byte("DELETE / HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: x\r\n\r\n"),
		[]byte("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n"), []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), post(bearer+named, modern)[:300], []byte("GET /.well-known/oauth-protected-resource HTTP/1.0\r\n\r\n"), {0x16, 0x03, 0x01},
	} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		synctest.Test(t, func(t *testing.T) {
			response, calls := sendRaw(t, raw)
			if calls > 0 && !authorized(raw) {
				t.Fatalf("%q is served", raw)
			}
			if calls == 0 && bytes.Equal(raw, post(bearer+named, modern)) {
				t.Fatalf("an authorized call is answered with %q", response)
			}
			checkStatuses(t, raw, response)
		})
	})
}

// authorized reports whether one of the requests in raw has the token.
func authorized(raw []byte) bool {
	for sent := bufio.NewReader(bytes.NewReader(raw)); ; {
		request, err := http.ReadRequest(sent)
		if err != nil {
			return false
		}
		if scheme, token, _ := strings.Cut(request.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") && strings.TrimSpace(token) == fuzzedToken {
			return true
		}
		_, _ = io.Copy(io.Discard, request.Body)
	}
}

// sendRaw sends bytes to a new server over a connection in memory, and returns the bytes of the response and the number of
// calls that reached the middleware.
func sendRaw(t *testing.T, raw []byte) (response []byte, calls int64) {
	var served atomic.Int64
	s := httpServer()
	s.Middleware = []call.Middleware{func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			served.Add(1)
			return next(ctx, c)
		}
	}}
	s.Auth = &auth.ProtectedResource{URI: "http://localhost/mcp", Issuers: []string{"https://as.example"}, Verifier: auth.VerifierFunc(func(_ context.Context, token string) (*auth.Info, error) {
		if token != fuzzedToken {
			return nil, &auth.InvalidTokenError{Reason: "the token is unknown"}
		}
		p, err := principal.New("https://as.example", "ada", "")
		return &auth.Info{Principal: p, Audience: []string{"http://localhost/mcp"}, Expiry: time.Now().Add(time.Hour)}, err
	})}
	var failures bytes.Buffer // log.Logger locks it, and it is read after the server has ended
	near, far := net.Pipe()
	listener := &oneConn{conn: far, closed: make(chan struct{})}
	h := &http.Server{Handler: s, ErrorLog: log.New(&failures, "", 0)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = h.Serve(listener)
	}()
	go func() {
		_, _ = near.Write(raw) // ends when the connection is closed
	}()
	_ = near.SetReadDeadline(time.Now().Add(2 * time.Minute)) // in the bubble, this takes no time
	response, err := io.ReadAll(near)
	if err != nil && !errors.Is(err, io.ErrClosedPipe) && !strings.Contains(err.Error(), "timeout") {
		t.Errorf("read: %v", err)
	}
	near.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Errorf("%q: Shutdown: %v", raw, err)
	}
	if err := h.Shutdown(ctx); err != nil {
		t.Errorf("%q: Shutdown: %v", raw, err)
	}
	<-ended
	if strings.Contains(failures.String(), "panic") {
		t.Fatalf("%q: %s", raw, failures.String())
	}
	return response, served.Load()
}

// checkStatuses checks the statuses of the responses to the requests in raw.
func checkStatuses(t *testing.T, raw, responses []byte) {
	t.Helper()
	sent, answered := bufio.NewReader(bytes.NewReader(raw)), bufio.NewReader(bytes.NewReader(responses))
	for {
		request, err := http.ReadRequest(sent)
		if err != nil {
			request = nil
		} else {
			_, _ = io.Copy(io.Discard, request.Body)
		}
		response, err := http.ReadResponse(answered, request)
		if err != nil {
			if len(responses) > 0 && !bytes.HasPrefix(responses, []byte("HTTP/1.")) {
				t.Fatalf("%q is answered with %q", raw, responses)
			}
			return
		}
		if !slices.Contains(fuzzedStatuses, response.StatusCode) {
			t.Fatalf("%q is answered with %q", raw, responses)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		if request == nil {
			return
		}
	}
}

// oneConn is a listener with one connection.
type oneConn struct {
	conn   net.Conn
	closed chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *oneConn) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}

// Addr is an address of the loopback interface.
func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }
