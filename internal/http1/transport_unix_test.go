//go:build unix

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
	"net/http/httptrace"
	"net/url"
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
		t.Fatal("a setting of base needs http.Transport")
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
		if !tr.canSend(req()) {
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
		"case of a name":    func(r *http.Request) { r.Header["transfer-encoding"] = []string{"chunked"} },
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
		if address := addressOf(req.URL); !tr.canSend(req) || address != "a.example:80" {
			t.Fatalf("a usual request to %q is left to http.Transport", address)
		}
		change(req)
		if tr.canSend(req) {
			t.Errorf("%s: the request is not left to http.Transport", name)
		}
	}
	tr.base.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse("http://proxy.example") }
	if tr.canSend(newRequest(t, "GET", "http://a.example/mcp", "")) {
		t.Error("the proxy is not used")
	}
	tr.base.Proxy = func(*http.Request) (*url.URL, error) { return nil, errors.New("no") }
	if tr.canSend(newRequest(t, "GET", "http://a.example/mcp", "")) {
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
