//go:build unix

package http1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// await waits until a condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
	}
}

// idleOf returns the idle connections.
func (t *Transport) idleOf(address string) []*connection {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.idle[address])
}

func TestConnectionsThatTheServerHasClosedAreNotUsed(t *testing.T) {
	for name, response := range map[string]string{"closed": ok, "unexpected response": ok + ok} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, func(int) (string, bool) { return response, name == "closed" })
			tr := newTransport(t, newBase())
			for i := range 20 {
				if got := exchange(t, tr, newRequest(t, "POST", s.url(), "{}")); !strings.HasPrefix(got, "200") {
					t.Fatalf("request %d: %s", i, got)
				}
				for _, c := range tr.idleOf(s.Addr().String()) {
					await(t, "the end of the connection is seen", func() bool { return !c.isOpen() })
				}
			}
			if n := s.accepted.Load(); n != 20 {
				t.Errorf("%d connections for 20 requests", n)
			}
		})
	}
}

// If a connection is lost before a request is written, the request is sent on another one, with its body.
func TestRequestsThatCouldNotBeSentAreRepeated(t *testing.T) {
	s := newScript(t, always(ok))
	tr := newTransport(t, newBase())
	for range 3 {
		if got := exchange(t, tr, newRequest(t, "POST", s.url(), "{}")); !strings.HasPrefix(got, "200") {
			t.Fatal(got)
		}
		if request := <-s.requests; !strings.HasSuffix(request, "\r\n\r\n{}") {
			t.Errorf("received %q", request)
		}
		for _, c := range tr.idleOf(s.Addr().String()) {
			if err := c.conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
		}
		tr.mu.Lock() // the peek would see that the server closes its side, too
		for _, c := range tr.idle[s.Addr().String()] {
			c.peek = func(uintptr) bool { c.open = true; return true }
		}
		tr.mu.Unlock()
	}
	if n := s.accepted.Load(); n != 3 {
		t.Errorf("%d connections", n)
	}
}

// A request that the server may have received is not repeated, unless it is a GET request.
func TestRequestsThatMayHaveBeenServedAreNotRepeated(t *testing.T) {
	for _, c := range []struct {
		method, body, response string // the response breaks off
		requests, connections  int64
	}{
		{"POST", "{}", "", 2, 1},
		{"POST", strings.Repeat("a", 16<<10), "", 2, 1},
		{"DELETE", "", "", 2, 1},
		{"GET", "", "HTTP/1.1 2", 2, 1},
		{"GET", "", "", 3, 2},
	} {
		s := newScript(t, func(n int) (string, bool) {
			if n == 2 {
				return c.response, true
			}
			return ok, false
		})
		tr := newTransport(t, newBase())
		exchange(t, tr, newRequest(t, c.method, s.url(), c.body))
		got := exchange(t, tr, newRequest(t, c.method, s.url(), c.body))
		if isError, repeated := got == "error", c.requests > 2; isError == repeated || int64(len(s.requests)) != c.requests || s.accepted.Load() != c.connections {
			t.Errorf("%s: %s after %d requests on %d connections", c.method, got, len(s.requests), s.accepted.Load())
		}
	}
}

// A server may respond to a part of a request and close the connection.
func TestResponsesToAPartOfARequestAreReceived(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, c := range []struct{ response, want string }{
		{"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno", `413 Too Large map[Content-Length:[2]] 2 "no" map[]`},
		{"HTTP/1.1 4", "error"},
		{"", "error"},
	} {
		tr := newTransport(t, newBase())
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			// It closes the connection with bytes of the request unread: the client cannot write any more.
			if _, err := io.ReadFull(conn, make([]byte, 100)); err == nil {
				_, _ = io.WriteString(conn, c.response)
			}
		}()
		req := newRequest(t, "POST", "http://"+l.Addr().String(), strings.Repeat("a", maxBody))
		req.Body = io.NopCloser(&pausedBody{rest: strings.Repeat("a", maxBody), until: closed})
		if got := exchange(t, tr, req); got != c.want {
			t.Errorf("%q: %s", c.response, got)
		}
		if n := len(tr.idleOf(l.Addr().String())); n != 0 {
			t.Errorf("%q: %d idle connections", c.response, n)
		}
	}
}

// pausedBody is a text whose second half can be read once a channel is closed.
type pausedBody struct {
	rest  string
	until chan struct{}
	reads int
}

func (b *pausedBody) Read(p []byte) (int, error) {
	if len(b.rest) == 0 {
		return 0, io.EOF
	}
	if b.reads++; b.reads > 1 {
		<-b.until
	}
	n := copy(p[:min(len(p), maxBody/2)], b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func TestCancellationEndsRequests(t *testing.T) {
	cause := errors.New("cancelled for a reason")
	for stage, response := range map[string]string{"header": "", "body": head + "Content-Length: 10\r\n\r\nab"} {
		t.Run(stage, func(t *testing.T) {
			received := make(chan struct{}, 1)
			s := newScript(t, func(int) (string, bool) {
				received <- struct{}{}
				return response, false
			})
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if stage == "header" {
				go func() {
					<-received
					cancel(cause)
				}()
			}
			resp, err := newTransport(t, newBase()).RoundTrip(newRequest(t, "POST", s.url(), "{}").WithContext(ctx))
			if stage == "body" {
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.ReadFull(resp.Body, make([]byte, 2))
				cancel(cause)
				_, err = resp.Body.Read(make([]byte, 2))
			}
			if err != cause {
				t.Errorf("got %v", err)
			}
			s.awaitClosed(t)
		})
	}
	t.Run("dial", func(t *testing.T) {
		base := newBase()
		ctx, cancel := context.WithCancelCause(t.Context())
		base.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			cancel(cause)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		closed := false
		req := newRequest(t, "POST", "http://a.example", "{}").WithContext(ctx)
		req.Body = closing{req.Body, &closed}
		if _, err := newTransport(t, base).RoundTrip(req); err != cause || !closed {
			t.Errorf("got %v, body closed: %t", err, closed)
		}
	})
	t.Run("before", func(t *testing.T) {
		s := newScript(t, always(ok))
		tr := newTransport(t, newBase())
		exchange(t, tr, newRequest(t, "POST", s.url(), "{}"))
		<-s.requests
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		closed := false
		req := newRequest(t, "POST", s.url(), "{}").WithContext(ctx)
		req.Body = closing{req.Body, &closed}
		if _, err := tr.RoundTrip(req); err != cause || !closed {
			t.Errorf("got %v, body closed: %t", err, closed)
		}
		if n := len(tr.idleOf(s.Addr().String())); n != 1 {
			t.Errorf("%d idle connections", n)
		}
		exchange(t, tr, newRequest(t, "GET", s.url(), ""))
		if request := <-s.requests; !strings.HasPrefix(request, "GET") {
			t.Errorf("received %q", request)
		}
	})
}

// closing records that a body was closed.
type closing struct {
	io.ReadCloser
	closed *bool
}

func (c closing) Close() error {
	*c.closed = true
	return c.ReadCloser.Close()
}

func TestCloseEndsReads(t *testing.T) {
	s := newScript(t, always(head+"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"))
	tr := newTransport(t, newBase())
	resp, err := tr.RoundTrip(newRequest(t, "GET", s.url(), ""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	read := make(chan error)
	go func() {
		_, err := resp.Body.Read(make([]byte, 2))
		read <- err
	}()
	resp.Body.Close()
	if err := <-read; !errors.Is(err, errClosed) {
		t.Errorf("got %v", err)
	}
	if _, err := resp.Body.Read(make([]byte, 2)); err == nil {
		t.Error("a closed body can be read")
	}
	s.awaitClosed(t)
	if n := len(tr.idleOf(s.Addr().String())); n != 0 {
		t.Errorf("%d idle connections", n)
	}
}

func TestBodyWithAnotherLengthIsAnError(t *testing.T) {
	s := newScript(t, always(ok))
	base := newBase()
	dialed := 0
	base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		dialed++
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	tr := newTransport(t, base)
	for _, length := range []int64{1, 3} {
		exchange(t, tr, newRequest(t, "POST", s.url(), "{}"))
		req := newRequest(t, "POST", s.url(), "{}")
		req.ContentLength = length
		if _, err := tr.RoundTrip(req); !errors.Is(err, errBody) {
			t.Errorf("length %d: %v", length, err)
		}
	}
	if dialed != 2 { // the connections of the errors are closed
		t.Errorf("%d connections", dialed)
	}
}

func TestClosedBodyCannotBeRead(t *testing.T) {
	s := newScript(t, always(ok))
	resp, err := newTransport(t, newBase()).RoundTrip(newRequest(t, "POST", s.url(), "{}"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
	resp.Body.Close()
	if n, err := resp.Body.Read(make([]byte, 1)); n != 0 || err != errClosed {
		t.Errorf("read %d bytes, %v", n, err)
	}
}

func TestIdleConnectionsAreLimited(t *testing.T) {
	release := make(chan struct{})
	s := newScript(t, func(int) (string, bool) {
		<-release
		return ok, false
	})
	base := newBase()
	base.MaxIdleConnsPerHost = 2
	tr := newTransport(t, base)
	var requests sync.WaitGroup
	for range 5 {
		requests.Go(func() { exchange(t, tr, newRequest(t, "POST", s.url(), "{}")) })
	}
	for range 5 {
		<-s.requests
	}
	close(release)
	requests.Wait()
	for range 3 {
		s.awaitClosed(t)
	}
	if n := len(tr.idleOf(s.Addr().String())); n != 2 {
		t.Errorf("%d idle connections", n)
	}
}

func TestIdleConnectionsAreClosedAfterATime(t *testing.T) {
	answers := make(chan string)
	s := newScript(t, func(int) (string, bool) { return <-answers, false })
	base := newBase()
	base.IdleConnTimeout = 50 * time.Millisecond
	tr := newTransport(t, base)
	var requests sync.WaitGroup
	for range 2 {
		requests.Go(func() { exchange(t, tr, newRequest(t, "POST", s.url(), "{}")) })
		<-s.requests
	}
	begin := time.Now()
	answers <- ok
	await(t, "a part of the time has passed", func() bool { return time.Since(begin) > 20*time.Millisecond })
	answers <- ok // this connection is idle later, and must be closed by another timer
	requests.Wait()
	s.awaitClosed(t)
	s.awaitClosed(t)
	await(t, "no timer is left", func() bool {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		return tr.sweeper == nil && len(tr.idle) == 0
	})
	go func() { answers <- ok }()
	if got := exchange(t, tr, newRequest(t, "POST", s.url(), "{}")); !strings.HasPrefix(got, "200") {
		t.Error(got)
	}
}

func TestConnectionsInUseAreClosedAfterCloseIdleConnections(t *testing.T) {
	s := newScript(t, always(ok))
	base := newBase()
	base.IdleConnTimeout = time.Hour
	tr := newTransport(t, base)
	exchange(t, tr, newRequest(t, "POST", s.url(), "{}"))
	resp, err := tr.RoundTrip(newRequest(t, "POST", s.url(), "{}"))
	if err != nil {
		t.Fatal(err)
	}
	tr.CloseIdleConnections()
	if tr.sweeper != nil {
		t.Error("the timer is not stopped")
	}
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "ok" {
		t.Errorf("%q, %v", body, err)
	}
	s.awaitClosed(t)
}

// Concurrent requests receive their own responses, although some of them end early.
func TestConcurrentRequestsReceiveTheirResponses(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if len(body)%2 == 0 {
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		}
		_, _ = w.Write(body[:len(body)/2])
		if len(body)%3 == 0 {
			_ = http.NewResponseController(w).Flush()
		}
		_, _ = w.Write(body[len(body)/2:])
	}))
	defer server.Close()
	tr := newTransport(t, newBase())
	var callers sync.WaitGroup
	for caller := range 8 {
		callers.Go(func() {
			for i := range 200 {
				want := strings.Repeat(fmt.Sprintf("%d-%d ", caller, i), 1+i*7)
				ctx, cancel := context.WithCancel(t.Context())
				resp, err := tr.RoundTrip(newRequest(t, "POST", server.URL, want).WithContext(ctx))
				switch {
				case err != nil:
					t.Error(err)
				case i%5 == 0:
					cancel()
					_, _ = io.Copy(io.Discard, resp.Body)
				case i%7 == 0:
					_, _ = resp.Body.Read(make([]byte, 3))
				default:
					if got, err := io.ReadAll(resp.Body); err != nil || string(got) != want {
						t.Errorf("got %.100q, %v, want %.100q", got, err, want)
					}
				}
				if err == nil {
					resp.Body.Close()
				}
				cancel()
			}
		})
	}
	callers.Wait()
}
