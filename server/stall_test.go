package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
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

// A client that goes away during its handshake, or right after it, leaves no goroutine, on any transport.
func TestAbandonedHandshakesLeaveNoGoroutine(t *testing.T) {
	for name, abandon := range map[string]func(e *endpoint, version string){
		"Streamable HTTP, half of initialize": func(e *endpoint, version string) {
			e.abandon(rawPost(fmt.Sprintf(wiretest.Initialize, version))[:200], "")
		},
		"Streamable HTTP, initialize": func(e *endpoint, version string) {
			e.abandon(rawPost(fmt.Sprintf(wiretest.Initialize, version)), "HTTP/1.1 200")
		},
		"Streamable HTTP, stream before notifications/initialized": func(e *endpoint, version string) {
			id := e.do("POST", "/", fmt.Sprintf(wiretest.Initialize, version)).header.Get("Mcp-Session-Id")
			e.abandon(getOf(id), "HTTP/1.1 200")
		},
		"Streamable HTTP, stream": func(e *endpoint, version string) {
			e.abandon(getOf(e.session(version)[1]), "HTTP/1.1 200")
		},
		"HTTP+SSE, stream": func(e *endpoint, _ string) { e.abandon(getOf(""), "data: /") },
		"HTTP+SSE, initialize": func(e *endpoint, version string) {
			conn := e.connect()
			fmt.Fprint(conn, getOf(""))
			path := strings.TrimPrefix(readUntil(e.t, conn, "data: /"), "data: ")
			a := e.do("POST", path, fmt.Sprintf(wiretest.Initialize, version))
			must.Equal(e.t, a.status, 202, a)
			reset(conn)
			eventually(e.t, func() bool { return e.do("POST", path, pingBody).status == 404 })
		},
		"byte stream, half of initialize": func(e *endpoint, version string) {
			e.abandonStream(fmt.Sprintf(wiretest.Initialize, version)[:40], false)
		},
		"byte stream, initialize": func(e *endpoint, version string) {
			e.abandonStream(fmt.Sprintf(wiretest.Initialize, version)+"\n", true)
		},
	} {
		for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
			t.Run(name+"/"+version, func(t *testing.T) {
				e := newEndpoint(t)
				e.do("POST", "/", pingBody) // starts the goroutines of the test's own client and of the server
				before := goleak.IgnoreCurrent()
				for range 5 {
					abandon(e, version)
				}
				e.http.Client().CloseIdleConnections()
				goleak.VerifyNone(t, before)
			})
		}
	}
}

// getOf returns a request for the stream of a session, or for a stream of HTTP+SSE if it has no id.
func getOf(session string) string {
	if session != "" {
		session = "Mcp-Session-Id: " + session + "\r\n"
	}
	return "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n" + session + "\r\n"
}

// abandon sends bytes on a new connection, reads until a line begins with want, and resets the connection.
func (e *endpoint) abandon(request, want string) {
	e.t.Helper()
	conn := e.connect()
	must.Get(fmt.Fprint(conn, request))(e.t)
	if want != "" {
		readUntil(e.t, conn, want)
	}
	reset(conn)
}

func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	conn.Close()
}

func readUntil(t *testing.T, conn net.Conn, beginning string) string {
	t.Helper()
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), beginning) {
			return lines.Text()
		}
	}
	t.Fatalf("no line begins with %s: %v", beginning, lines.Err())
	return ""
}

// abandonStream sends bytes to ServeConn on a pipe and closes its end.
func (e *endpoint) abandonStream(bytes string, answered bool) {
	e.t.Helper()
	near, far := net.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- e.server.ServeConn(context.Background(), transport.Stream(far, transport.StreamOptions{}))
	}()
	must.Get(fmt.Fprint(near, bytes))(e.t)
	if answered {
		readUntil(e.t, near, `{"jsonrpc":"2.0","id":0,"result"`)
	}
	near.Close()
	<-served
}

// Rule T20: after a disconnect no event stream begins, also not for a batch.
func TestNoStreamOfABatchBeginsAfterADisconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBubbleFleet(t, 1)
		batch := f.open(0, "POST", "["+stepCall+"]", f.session("2025-03-26")...)
		batch.leave()
		f.progress(1, 1)
		must.CheckEqual(t, batch.body(), "")
		close(f.steps)
		must.CheckThat(t, batch.ended(), "the batch has not ended")
	})
}

// A client can open a subscription again after it has cancelled one or lost its connection, as often as it likes. The
// server can end the last one.
func TestSubscriptionsCanBeOpenedAgain(t *testing.T) {
	t.Run("byte stream", func(t *testing.T) {
		before := goleak.IgnoreCurrent()
		s := changeable()
		w := connect(t, s)
		for i := range 50 {
			id := fmt.Sprint(2 + i)
			w.Send(listenRequest(id, `{"toolsListChanged":true}`))
			w.Expect(acknowledged(id, `{"toolsListChanged":true}`))
			w.Send(cancelled(id))
		}
		w.Send(listenRequest(`1`, `{"toolsListChanged":true}`))
		w.Expect(acknowledged(`1`, `{"toolsListChanged":true}`))
		down := make(chan error, 1)
		go func() { down <- s.Shutdown(t.Context()) }()
		w.Expect(ended(`1`)...)
		must.Check(t, <-down)
		_ = w.Served()
		goleak.VerifyNone(t, before)
	})
	t.Run("HTTP", func(t *testing.T) {
		e := endpointOf(t, changeable())
		open := func() *wiretest.Events {
			stream := wiretest.Stream(t, e.open(t.Context(), "POST", "/",
				listenRequest(`1`, `{"toolsListChanged":true}`), listenHeader...))
			must.Equal(t, stream.Data(), acknowledged(`1`, `{"toolsListChanged":true}`))
			return stream
		}
		e.do("POST", "/", pingBody)
		e.http.Client().CloseIdleConnections()
		before := goleak.IgnoreCurrent()
		for range 50 {
			open().Close()
		}
		last := open()
		e.server.RemoveTool("first")
		must.CheckEqual(t, last.Data(), tagged(`1`, "tools/list_changed"))
		must.Check(t, e.server.Shutdown(t.Context()))
		for _, want := range append(ended(`1`), "") {
			must.CheckEqual(t, last.Data(), want)
		}
		last.Close()
		e.http.Client().CloseIdleConnections()
		goleak.VerifyNone(t, before)
	})
}

// A question ends when its client has disconnected and does not resume the stream, although the call goes on.
func TestAQuestionEndsWhenItsClientLeaves(t *testing.T) {
	for _, version := range []string{"2025-03-26", "2025-11-25"} {
		synctest.Test(t, func(t *testing.T) {
			f := newBubbleFleet(t, 1)
			start := inBubble(f.servers[0], http.MethodPost,
				strings.Replace(fmt.Sprintf(wiretest.Initialize, version), `{}`, `{"sampling":{}}`, 1))
			session := []string{"Mcp-Session-Id", start.Header().Get("Mcp-Session-Id"), "Accept",
				"text/event-stream, application/json"}
			x := f.open(0, http.MethodPost, stepCall, session...)
			ended := make(chan error, 1)
			f.steps <- func(ctx context.Context) error {
				_, err := server.Sample(ctx, mcp.CreateMessageParams{MaxTokens: 1,
					Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser,
						Content: []mcp.Content{&mcp.TextContent{Text: "?"}}}}})
				ended <- err
				return nil
			}
			asked := x.frames()
			x.leave()
			time.Sleep(9 * time.Second)
			again := f.resume(0, session, asked[0].ID)
			time.Sleep(time.Minute)
			if synctest.Wait(); len(ended) > 0 {
				t.Fatalf("%s: the question has ended although its client has returned: %v", version, <-ended)
			}
			again.leave()
			left := time.Now()
			if err := <-ended; !errors.Is(err, call.ErrCancelled) || time.Since(left) > 12*time.Second {
				t.Errorf("%s: after %v: %v", version, time.Since(left), err)
			}
			close(f.steps)
			got := f.resume(0, session, asked[0].ID).frames()
			must.CheckThat(t, len(got) != 0 && strings.Contains(got[len(got)-1].Data, `"id":1,"result"`),
				"%s: the call has no response: %v", version, got)
		})
	}
}

// A question has a time-out of minutes. Once it is answered, nothing keeps the request of its call in memory until
// then.
func TestAnAnsweredQuestionDoesNotKeepItsRequest(t *testing.T) {
	type retained [64]byte
	type key struct{}
	s := &server.Server{Name: "up", Version: "1"}
	var request weak.Pointer[retained]
	server.AddTool(s, mcp.Tool{Name: "ask"}, func(ctx context.Context, _ struct{}) (string, error) {
		request = weak.Make(ctx.Value(key{}).(*retained))
		_, err := server.Elicit[struct{}](ctx, "Continue?")
		return "done", err
	})
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), key{}, new(retained))))
	}))
	t.Cleanup(func() {
		_ = s.Shutdown(context.Background())
		endpoint.Close()
	})
	d := &client.Dialer{Revision: mcp.V20251125, HTTPClient: endpoint.Client(),
		Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return mcp.AcceptElicit(struct{}{})
		}}
	c := must.Get(d.Dial(t.Context(), client.URL(endpoint.URL)))(t)
	defer c.Close()
	must.Equal(t, must.Get(client.CallTool[string](t.Context(), c, "ask", nil))(t), "done")
	endpoint.CloseClientConnections() // a connection keeps its latest request
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for request.Value() != nil {
		runtime.GC()
		must.Do(t, ctx.Err(), "the request is in memory")
		runtime.Gosched()
	}
}
