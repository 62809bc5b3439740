package server_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
)

// maxStall is the time within which a request must end whose client sends nothing or reads
// nothing.
const maxStall = 75 * time.Second

// memoryNet is a listener whose connections are in memory and have no buffers. A write to one
// waits for the reader.
type memoryNet struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (n *memoryNet) Accept() (net.Conn, error) {
	select {
	case c := <-n.conns:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

func (n *memoryNet) Close() error   { close(n.closed); return nil }
func (n *memoryNet) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "memory"} }

func (n *memoryNet) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	n.conns <- far
	return near, nil
}

// plainServer serves h with an http.Server without time-outs. It counts the handlers that have
// returned.
func plainServer(t *testing.T, h http.Handler) (n *memoryNet, returned chan struct{}) {
	n, returned = &memoryNet{make(chan net.Conn), make(chan struct{})}, make(chan struct{}, 100)
	web := &http.Server{ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.ServeHTTP(w, r)
			returned <- struct{}{}
		}), Protocols: new(http.Protocols)}
	web.Protocols.SetHTTP1(true)
	web.Protocols.SetUnencryptedHTTP2(true)
	served := make(chan struct{})
	go func() {
		_ = web.Serve(n)
		close(served)
	}()
	t.Cleanup(func() {
		web.Close()
		<-served
	})
	return n, returned
}

// A body that is announced and does not come ends its request, with every method, also if the
// server would not read the body.
func TestABodyThatNeverComesEndsItsRequest(t *testing.T) {
	_, modernHeader := wiretest.Modern("1", mcp.MethodDiscover, "")
	for name, head := range map[string]func(session []string) string{
		"stateless": func([]string) string { return requestHead("POST", "/", modernHeader...) },
		"handshake": func([]string) string { return requestHead("POST", "/") },
		"session":   func(session []string) string { return requestHead("POST", "/", session...) },
		"pair":      func([]string) string { return requestHead("POST", "/?sessionId=x") },
		"standalone GET": func(session []string) string {
			return requestHead("GET", "/", append(session, "Accept", "text/event-stream")...)
		},
		"GET of a pair":   func([]string) string { return requestHead("GET", "/", "Accept", "text/event-stream") },
		"DELETE":          func(session []string) string { return requestHead("DELETE", "/", session...) },
		"unknown method":  func([]string) string { return requestHead("PUT", "/") },
		"rejected Origin": func([]string) string { return requestHead("POST", "/", "Origin", foreign) },
		"rejected Accept": func([]string) string { return requestHead("POST", "/", "Accept", "text/html") },
		"rejected coding": func([]string) string { return requestHead("POST", "/", "Content-Encoding", "gzip") },
		"100-continue": func(session []string) string {
			return requestHead("POST", "/", append(session, "Expect", "100-continue")...)
		},
		"rejected session": func([]string) string { return requestHead("POST", "/", "Mcp-Session-Id", "x") },
	} {
		for _, body := range []string{
			"Content-Length: 10\r\n\r\n", "Content-Length: 10\r\n\r\n{", "Content-Length: 200000\r\n\r\n{",
			"Content-Length: 3000000\r\n\r\n{",
			"Transfer-Encoding: chunked\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n5\r\n",
		} {
			synctest.Test(t, func(t *testing.T) {
				s := httpServer()
				session := begin(t, s)
				network, _ := plainServer(t, s)
				conn, _ := network.dial(t.Context(), "", "")
				defer conn.Close()
				_ = conn.SetReadDeadline(time.Now().Add(maxStall))
				go func() { _, _ = io.WriteString(conn, head(session)+body) }()
				must.Check(t, must.Err(io.ReadAll(conn)), name, body)
			})
		}
	}
}

// A client that does not read its response does not hold a handler or a connection, whatever
// the length of the response.
func TestAClientThatDoesNotReadEndsItsRequest(t *testing.T) {
	const (
		call  = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"big","arguments":{"bytes":%d}}}`
		asked = "Accept"
	)
	modernBody, modernHeader := wiretest.Modern("1", mcp.MethodDiscover, "")
	for name, request := range map[string]func(session []string) string{
		"stateless": func([]string) string { return rawPost(modernBody, modernHeader...) },
		"as events": func([]string) string {
			return rawPost(modernBody, append(modernHeader, asked, "text/event-stream")...)
		},
		"handshake": func([]string) string { return rawPost(fmt.Sprintf(wiretest.Initialize, "2025-11-25")) },
		"session":   func(session []string) string { return rawPost(pingBody, session...) },
		"3 KB":      func(session []string) string { return rawPost(fmt.Sprintf(call, 3<<10), session...) },
		"60 KB":     func(session []string) string { return rawPost(fmt.Sprintf(call, 60<<10), session...) },
		"1 MB":      func(session []string) string { return rawPost(fmt.Sprintf(call, 1<<20), session...) },
		"1 MB as events": func(session []string) string {
			return rawPost(fmt.Sprintf(call, 1<<20), append(session, asked, "text/event-stream")...)
		},
		"notification": func(session []string) string { return rawPost(wiretest.Initialized, session...) },
		"standalone GET": func(session []string) string {
			return requestHead("GET", "/", append(session, asked, "text/event-stream")...) + "\r\n"
		},
		"pair":       func([]string) string { return requestHead("GET", "/", asked, "text/event-stream") + "\r\n" },
		"DELETE":     func(session []string) string { return requestHead("DELETE", "/", session...) + "\r\n" },
		"PUT":        func([]string) string { return requestHead("PUT", "/") + "\r\n" },
		"rejected":   func([]string) string { return rawPost(pingBody, "Origin", foreign) },
		"no session": func([]string) string { return rawPost(pingBody) },
		"malformed":  func([]string) string { return rawPost("{") },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := httpServer()
			session := begin(t, s)
			network, returned := plainServer(t, s)
			conn, _ := network.dial(t.Context(), "", "")
			defer conn.Close()
			_ = conn.SetWriteDeadline(time.Now().Add(maxStall))
			must.Get(io.WriteString(conn, request(session)))(t)
			// The server reads nothing more, so this write ends when the server closes the connection.
			_, err := io.WriteString(conn, strings.Repeat(rawPost(pingBody), 100))
			timeout, ok := err.(net.Error)
			must.CheckThat(t, !ok || !timeout.Timeout(), "%s: the connection is open", name)
			synctest.Wait() // the handler returns after the connection is closed
			select {
			case <-returned:
			default:
				t.Errorf("%s: the handler has not returned", name)
			}
		})
	}
}

// The limits hold for HTTP/2, where each request is a stream of one connection, and behind
// middleware that wraps the ResponseWriter.
func TestStalledStreamsOfHTTP2End(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := httpServer()
		session := begin(t, s)
		network, returned := plainServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.ServeHTTP(wrapper{w}, r)
		}))
		transport := &http.Transport{DialContext: network.dial, Protocols: new(http.Protocols)}
		transport.Protocols.SetUnencryptedHTTP2(true)
		defer transport.CloseIdleConnections()
		send := func(body io.Reader, length int64) (*http.Response, error) {
			ctx, cancel := context.WithTimeout(t.Context(), maxStall)
			t.Cleanup(cancel)
			req := must.Get(http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/", body))(t)
			req.ContentLength = length
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set(session[0], session[1])
			return transport.RoundTrip(req)
		}
		silent, end := io.Pipe()
		defer end.Close()
		resp, err := send(silent, 10)
		must.That(t, err == nil && resp.StatusCode == http.StatusRequestTimeout && resp.ProtoMajor == 2,
			"%+v, %v", resp, err)
		resp.Body.Close()
		<-returned
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"big","arguments":{"bytes":20000000}}}`
		resp, err = send(strings.NewReader(body), int64(len(body)))
		must.Do(t, err)
		defer resp.Body.Close()
		select {
		case <-returned:
		case <-time.After(30*time.Second + 20_000_000/(32<<10)*time.Second + time.Second):
			// by the length of the response
			t.Error("the handler has not returned")
		}
	})
}

// wrapper is the ResponseWriter of a middleware.
type wrapper struct{ http.ResponseWriter }

func (w wrapper) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// A connection serves further requests for longer than any of the time-outs, and so do the other
// handlers of its http.Server.
func TestTimeoutsDoNotOutliveTheirRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := httpServer()
		waiting := addWait(s)
		session := begin(t, s)
		mux := http.NewServeMux()
		mux.Handle("/mcp", s)
		mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Hour)
			_, _ = io.WriteString(w, "slow")
		})
		network, _ := plainServer(t, mux)
		dials := 0
		transport := &http.Transport{DialContext: func(ctx context.Context,
			network1, address string) (net.Conn, error) {
			dials++
			return network.dial(ctx, network1, address)
		}}
		defer transport.CloseIdleConnections()
		do := func(path, body string) string {
			req := must.Get(http.NewRequest(http.MethodPost, "http://localhost"+path, strings.NewReader(body)))(t)
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set(session[0], session[1])
			resp, err := transport.RoundTrip(req)
			must.Do(t, err, path, body)
			defer resp.Body.Close()
			raw, _ := io.ReadAll(resp.Body)
			return string(raw)
		}
		go func() {
			w := <-waiting
			time.Sleep(10 * time.Minute)
			close(w.release)
		}()
		for _, step := range []struct{ path, body, want string }{
			{"/mcp", wiretest.Initialized, ""},
			{"/slow", "", "slow"},
			{"/mcp", wiretest.Initialized, ""}, // the session has expired
			{"/slow", "x", "slow"},
			{"/mcp", pingBody, "session not found"},
		} {
			must.CheckContains(t, do(step.path, step.body), step.want, step.path)
		}
		session = begin(t, s)
		do("/mcp", wiretest.Initialized)
		must.CheckContains(t, do("/mcp", fmt.Sprintf(waitCall, 1)), "waited")
		must.CheckEqual(t, dials, 1)
	})
}
