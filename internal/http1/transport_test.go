package http1

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// patience bounds the time that a test waits.
const patience = 20 * time.Second

func newBase() *http.Transport {
	return &http.Transport{MaxIdleConnsPerHost: 4, MaxResponseHeaderBytes: 8 << 10, DisableCompression: true}
}

// newTransport returns a Transport whose connections are closed when the test ends.
func newTransport(t *testing.T, base *http.Transport) *Transport {
	t.Helper()
	own, ok := New(base).(*Transport)
	if !ok {
		t.Skip("this system uses http.Transport")
	}
	t.Cleanup(own.CloseIdleConnections)
	return own
}

// script is a server that answers each request on a connection with the bytes of a function, and closes the connection if
// they are empty or end says so.
type script struct {
	net.Listener
	accepted atomic.Int64
	requests chan string // the received requests
	answer   func(n int) (response string, end bool)
	closed   chan struct{} // receives a value for each connection that has ended
}

func newScript(t *testing.T, answer func(n int) (string, bool)) *script {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &script{Listener: l, requests: make(chan string, 1000), answer: answer, closed: make(chan struct{}, 1000)}
	var serving sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		serving.Wait()
	})
	var n atomic.Int64
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.accepted.Add(1)
			serving.Go(func() {
				defer func() { s.closed <- struct{}{} }()
				defer conn.Close()
				defer context.AfterFunc(t.Context(), func() { conn.Close() })() // t.Context ends before Cleanup
				for r := bufio.NewReader(conn); ; {
					var received bytes.Buffer
					req, err := http.ReadRequest(bufio.NewReader(io.TeeReader(oneByte{r}, &received)))
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
					s.requests <- received.String()
					response, end := s.answer(int(n.Add(1)))
					if _, err := io.WriteString(conn, response); err != nil || end {
						return
					}
				}
			})
		}
	})
	return s
}

func (s *script) url() string { return "http://" + s.Addr().String() + "/mcp" }

// awaitClosed waits until a connection has ended.
func (s *script) awaitClosed(t *testing.T) {
	t.Helper()
	select {
	case <-s.closed:
	case <-time.After(patience):
		t.Fatal("the connection stays open")
	}
}

// oneByte reads single bytes, so that a buffer reads nothing after the end.
type oneByte struct{ io.Reader }

func (r oneByte) Read(p []byte) (int, error) { return r.Reader.Read(p[:1]) }

// always answers each request with one response.
func always(response string) func(int) (string, bool) {
	return func(int) (string, bool) { return response, false }
}

func newRequest(t *testing.T, method, to, body string) *http.Request {
	t.Helper()
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, to, content)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// exchange sends a request and describes the response.
func exchange(t *testing.T, tr http.RoundTripper, req *http.Request) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(req.Context(), patience)
	defer cancel()
	resp, err := tr.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return "error"
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Sprintf("%s %v %q, then an error", resp.Status, resp.Header, body)
	}
	return fmt.Sprintf("%s %v %d %q %v", resp.Status, resp.Header, resp.ContentLength, body, resp.Trailer)
}

const (
	head = "HTTP/1.1 200 OK\r\n"
	ok   = head + "Content-Length: 2\r\n\r\nok"
)

// Of each response, a Transport and an http.Transport return the same, and use as many connections for two of them.
func TestResponsesAreThoseOfNetHTTP(t *testing.T) {
	for name, response := range map[string]string{
		"length":              ok,
		"headers":             head + "A: 1\r\na: 2\r\nContent-Type: application/json\r\nContent-Length: 0\r\n\r\n",
		"chunked":             head + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		"trailers":            head + "Transfer-Encoding: chunked\r\nTrailer: X\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n",
		"close":               head + "Connection: close\r\nContent-Length: 2\r\n\r\nok",
		"1.0":                 "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"1.0 kept":            "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
		"no content":          "HTTP/1.1 204 No Content\r\n\r\n",
		"not modified":        "HTTP/1.1 304 Not Modified\r\n\r\n",
		"continue":            "HTTP/1.1 100 Continue\r\n\r\n" + ok,
		"early hints":         "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" + ok,
		"five informational":  strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 5) + ok,
		"seven informational": strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 7) + ok,
		"many informational":  strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 1000) + ok,
		"error":               "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 1\r\n\r\n!",
		"two lengths":         head + "Content-Length: 2\r\nContent-Length: 3\r\n\r\nok",
		"length and chunks":   head + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		"negative length":     head + "Content-Length: -1\r\n\r\n",
		"unknown coding":      head + "Transfer-Encoding: gzip\r\n\r\nok",
		"no HTTP":             "hello, world\r\n\r\n",
		"HTTP/2":              "HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"status below 100":    "HTTP/1.1 099 No\r\nContent-Length: 0\r\n\r\n",
		"status":              "HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n",
		"field without name":  head + ": a\r\nContent-Length: 0\r\n\r\n",
		"space in a name":     head + "A : a\r\nContent-Length: 0\r\n\r\n",
		"large header":        head + "A: " + strings.Repeat("a", 9<<10) + "\r\n\r\n",
		"large chunk":         head + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
		"large body":          head + "Content-Length: 100000\r\n\r\n" + strings.Repeat("a", 100000),
		"compressed":          head + "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\nok",
	} {
		t.Run(name, func(t *testing.T) {
			var want, got []string
			var connections [2]int64
			for i, outcomes := range []*[]string{&want, &got} {
				base := newBase()
				defer base.CloseIdleConnections()
				var tr http.RoundTripper = base
				if i == 1 {
					tr = newTransport(t, base)
				}
				s := newScript(t, always(response))
				for range 2 {
					*outcomes = append(*outcomes, exchange(t, tr, newRequest(t, "POST", s.url(), "{}")))
				}
				connections[i] = s.accepted.Load()
			}
			if !slices.Equal(got, want) || connections[0] != connections[1] {
				t.Errorf("got %.300q with %d connections, want %.300q with %d", got, connections[1], want, connections[0])
			}
		})
	}
}

// Responses that break off are errors.
func TestResponsesThatBreakOffAreErrors(t *testing.T) {
	for _, response := range []string{
		"", "HTTP/1.1 200", head, head + "Content-Length: 3\r\n\r\nok", head + "Transfer-Encoding: chunked\r\n\r\n3\r\nab",
		head + "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
	} {
		s := newScript(t, func(int) (string, bool) { return response, true })
		if got := exchange(t, newTransport(t, newBase()), newRequest(t, "POST", s.url(), "{}")); !strings.HasSuffix(got, "error") {
			t.Errorf("%q: %s", response, got)
		}
	}
	s := newScript(t, func(int) (string, bool) { return head + "\r\nuntil the end", true })
	if got := exchange(t, newTransport(t, newBase()), newRequest(t, "GET", s.url(), "")); !strings.Contains(got, "until the end") {
		t.Error(got)
	}
}

// A Transport and an http.Transport send the same requests.
func TestRequestsAreThoseOfNetHTTP(t *testing.T) {
	s := newScript(t, always(ok))
	tr := newTransport(t, newBase())
	for i, req := range []func() *http.Request{
		func() *http.Request { return newRequest(t, "POST", s.url(), `{"jsonrpc":"2.0"}`) },
		func() *http.Request { return newRequest(t, "POST", s.url(), strings.Repeat("a", 16<<10)) },
		func() *http.Request { return newRequest(t, "POST", s.url(), "") },
		func() *http.Request { return newRequest(t, "GET", s.url()+"?a=b&c=%20#fragment", "") },
		func() *http.Request { return newRequest(t, "DELETE", s.url()+"/%C3%BC/ü", "") },
		func() *http.Request { return newRequest(t, "GET", "http://"+s.Addr().String(), "") },
		func() *http.Request {
			req := newRequest(t, "POST", s.url(), "{}")
			req.Host = "other.example:1"
			req.Header = http.Header{"Accept": {"a", "b"}, "Mcp-Session-Id": {"x y"}, "X-Utf8": {"ü"}, "X-Empty": {""}, "X-None": nil}
			return req
		},
	} {
		if _, own := tr.addressOf(req()); !own {
			t.Errorf("request %d is left to http.Transport", i)
		}
		var sent []string
		for _, tr := range []http.RoundTripper{tr.base, tr} {
			if got := exchange(t, tr, req()); !strings.HasPrefix(got, "200 OK") {
				t.Fatal(got)
			}
			header, body, _ := strings.Cut(<-s.requests, "\r\n\r\n")
			lines := slices.DeleteFunc(strings.Split(header, "\r\n"), func(line string) bool { return line == "Accept-Encoding: identity" })
			slices.Sort(lines[1:])
			sent = append(sent, strings.Join(lines, "\n")+"\n"+body)
		}
		if sent[0] != sent[1] {
			t.Errorf("request %d: got %.400q, want %.400q", i, sent[1], sent[0])
		}
	}
	if n := s.accepted.Load(); n != 2 {
		t.Errorf("%d connections, want 1 for each transport", n)
	}
}

func TestOtherRequestsAreLeftToNetHTTP(t *testing.T) {
	tr := newTransport(t, newBase())
	for name, change := range map[string]func(*http.Request){
		"TLS":               func(r *http.Request) { r.URL.Scheme = "https" },
		"method":            func(r *http.Request) { r.Method = "PUT" },
		"opaque":            func(r *http.Request) { r.URL.Opaque = "//a/b" },
		"no host":           func(r *http.Request) { r.URL.Host = "" },
		"international":     func(r *http.Request) { r.URL.Host = "bücher.example" },
		"line break":        func(r *http.Request) { r.URL.Host = "a\r\nb" },
		"host":              func(r *http.Request) { r.Host = "a b" },
		"zone":              func(r *http.Request) { r.URL.Host = "[fe80::1%eth0]:80" },
		"cancel":            func(r *http.Request) { r.Cancel = make(chan struct{}) }, //lint:ignore SA1019 programs may still set it
		"query":             func(r *http.Request) { r.URL.RawQuery = "a b" },
		"close":             func(r *http.Request) { r.Close = true },
		"trailer":           func(r *http.Request) { r.Trailer = http.Header{"A": nil} },
		"coding":            func(r *http.Request) { r.TransferEncoding = []string{"chunked"} },
		"large body":        func(r *http.Request) { r.ContentLength = 16<<10 + 1 },
		"unknown length":    func(r *http.Request) { r.ContentLength = -1 },
		"unrepeatable body": func(r *http.Request) { r.GetBody = nil },
		"name":              func(r *http.Request) { r.Header["A b"] = []string{"c"} },
		"empty name":        func(r *http.Request) { r.Header[""] = []string{"c"} },
		"injection":         func(r *http.Request) { r.Header["A"] = []string{"b\r\nC: d"} },
		"control":           func(r *http.Request) { r.Header["A"] = []string{"\x7f"} },
		"length":            func(r *http.Request) { r.Header["Content-Length"] = []string{"9"} },
		"user agent":        func(r *http.Request) { r.Header["User-Agent"] = []string{""} },
		"expect":            func(r *http.Request) { r.Header["Expect"] = []string{"100-continue"} },
		"upgrade":           func(r *http.Request) { r.Header["Upgrade"] = []string{"x"} },
		"trace": func(r *http.Request) {
			*r = *r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{}))
		},
	} {
		req := newRequest(t, "POST", "http://a.example/mcp", "{}")
		if address, own := tr.addressOf(req); !own || address != "a.example:80" {
			t.Fatalf("%q, %t", address, own)
		}
		change(req)
		if _, own := tr.addressOf(req); own {
			t.Errorf("%s: the request is not left to http.Transport", name)
		}
	}
	tr.base.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse("http://proxy.example") }
	if _, own := tr.addressOf(newRequest(t, "GET", "http://a.example/mcp", "")); own {
		t.Error("the proxy is not used")
	}
	tr.base.Proxy = func(*http.Request) (*url.URL, error) { return nil, errors.New("no") }
	if _, own := tr.addressOf(newRequest(t, "GET", "http://a.example/mcp", "")); own {
		t.Error("the error of the proxy is not returned")
	}
}

func TestSettingsThatNeedNetHTTP(t *testing.T) {
	for name, change := range map[string]func(*http.Transport){
		"dial":         func(b *http.Transport) { b.Dial = net.Dial }, //lint:ignore SA1019 programs may still set it
		"keep-alive":   func(b *http.Transport) { b.DisableKeepAlives = true },
		"connections":  func(b *http.Transport) { b.MaxConnsPerHost = 1 },
		"time-out":     func(b *http.Transport) { b.ResponseHeaderTimeout = time.Second },
		"no idle":      func(b *http.Transport) { b.MaxIdleConnsPerHost = 0 },
		"large header": func(b *http.Transport) { b.MaxResponseHeaderBytes = 0 },
		"HTTP/2": func(b *http.Transport) {
			b.Protocols = new(http.Protocols)
			b.Protocols.SetUnencryptedHTTP2(true)
		},
	} {
		base := newBase()
		change(base)
		if New(base) != http.RoundTripper(base) {
			t.Errorf("%s: the setting is not observed", name)
		}
	}
}

// hidden is a connection that is no syscall.Conn.
type hidden struct{ net.Conn }

func TestConnectionsOfOtherKindsAreLeftToNetHTTP(t *testing.T) {
	s := newScript(t, always(ok))
	base := newBase()
	dialed := 0
	base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		dialed++
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return hidden{conn}, err
	}
	tr := newTransport(t, base)
	for range 3 {
		if got := exchange(t, tr, newRequest(t, "POST", s.url(), "{}")); !strings.HasPrefix(got, "200") {
			t.Error(got)
		}
	}
	if dialed != 2 { // the first one was given up
		t.Errorf("%d connections", dialed)
	}
	tr.CloseIdleConnections()
}

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

// A request of which nothing was sent is sent again on another connection, with its body.
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

// Many requests at once, some of which end early, receive their own responses.
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
