package traffic

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parley-mcp/parley/cmd/parley/internal/traffic/recording"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/transport"
)

// through starts a server, and a proxy in front of it.
func through(t *testing.T, handler http.HandlerFunc) (server, proxy *httptest.Server) {
	t.Helper()
	server = httptest.NewServer(handler)
	t.Cleanup(server.Close)
	target := must.Get(url.Parse(server.URL))(t)
	p := &tapProxy{Target: target, Header: http.Header{"X-Added": {"1"}}, Transport: server.Client().Transport,
		Report: func(recording.Event) {}}
	proxy = httptest.NewServer(p.Handler())
	t.Cleanup(proxy.Close)
	return server, proxy
}

func TestRequestsAndResponsesAreForwardedUnchanged(t *testing.T) {
	server, proxy := through(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Mcp-Session-Id", "s")
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, strings.Join([]string{r.Method, r.Host, r.RequestURI, r.Header.Get("X-Forwarded-For"),
			r.Header.Get("Origin"), r.Header.Get("X-Added"), r.UserAgent(), string(body)}, "|"))
	})
	req, err := http.NewRequest(http.MethodPost, proxy.URL+"/a%2Fb/c?x=1;y=%zz", strings.NewReader("\x00{\"a\" :1}\n"))
	must.Do(t, err)
	req.Header.Set("Origin", proxy.URL)
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	req.Header.Set("X-Forwarded-For", "client")
	req.Header.Set("User-Agent", "test")
	resp := must.Get(http.DefaultClient.Do(req))(t)
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	want := "POST|" + strings.TrimPrefix(server.URL, "http://") + "|/a%2Fb/c?x=1;y=%zz|client|" + server.URL +
		"|1|test|\x00{\"a\" :1}\n"
	must.CheckThat(t, resp.StatusCode == http.StatusTeapot && resp.Header.Get("Mcp-Session-Id") == "s" &&
		string(body) == want, "%s %q\nwant %q", resp.Status, body, want)
}

// Requests that a web page can send to any server never get the headers of the proxy, which can be credentials.
func TestRequestsOfWebPagesAreNotForwarded(t *testing.T) {
	server, proxy := through(t, func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("forwarded: %s %v", r.Method, r.Header)
	})
	for _, test := range []struct {
		method, header, value string
		status                int
	}{
		{http.MethodPost, "Content-Type", "text/plain", http.StatusUnsupportedMediaType},
		{http.MethodPost, "Content-Type", "application/x-www-form-urlencoded", http.StatusUnsupportedMediaType},
		{http.MethodPost, "X-Other", "no type", http.StatusUnsupportedMediaType},
		{http.MethodGet, "Origin", "https://example.com", http.StatusForbidden},
		{http.MethodGet, "Origin", "null", http.StatusForbidden},
		{http.MethodGet, "Sec-Fetch-Site", "cross-site", http.StatusForbidden},
		{http.MethodGet, "Host", "rebound.example.com", http.StatusForbidden},
	} {
		req := must.Get(http.NewRequest(test.method, proxy.URL, strings.NewReader(`{"jsonrpc":"2.0"}`)))(t)
		if req.Header.Set(test.header, test.value); test.header == "Host" {
			req.Host = test.value
		}
		resp := must.Get(server.Client().Do(req))(t)
		resp.Body.Close()
		must.CheckEqual(t, resp.StatusCode, test.status, test.method, test.header, test.value)
	}
}

func TestRequestsOfAllowedHostsAndOriginsAreForwarded(t *testing.T) {
	p := &tapProxy{
		Target: &url.URL{Scheme: "http", Host: "127.0.0.1:1"}, Report: func(recording.Event) {},
		Hosts: []string{"tap.example.com"}, Origins: []string{"https://app.example.com"},
		Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody,
				Header: http.Header{"Origin-Sent": r.Header["Origin"]}, Request: r}, nil
		}),
	}
	for request, want := range map[[2]string]int{
		{"tap.example.com", "https://app.example.com"}: http.StatusNoContent,
		{"tap.example.com:80", ""}:                     http.StatusNoContent,
		{"tap.example.com", "https://evil.example"}:    http.StatusForbidden,
		{"evil.example", "https://app.example.com"}:    http.StatusForbidden,
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodOptions, "http://"+request[0]+"/mcp", nil)
		if request[1] != "" {
			r.Header.Set("Origin", request[1])
		}
		if p.Handler().ServeHTTP(w, r); w.Code != want ||
			want == http.StatusNoContent && w.Header().Get("Origin-Sent") != request[1] {
			t.Errorf("%q: %d %s", request, w.Code, w.Body)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestEventsAreForwardedAtOnceAndEndWithTheServer(t *testing.T) {
	next := make(chan string, 1)
	_, proxy := through(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for text := range next {
			_, _ = io.WriteString(w, text)
			_ = http.NewResponseController(w).Flush()
		}
		panic(http.ErrAbortHandler)
	})
	next <- ": opened\n"
	resp := must.Get(http.Get(proxy.URL))(t)
	defer resp.Body.Close()
	r := bufio.NewReader(resp.Body)
	for _, text := range []string{": opened\n", "data: 1\r\n", "\r\n", "x\n"} {
		if text != ": opened\n" {
			next <- text
		}
		got, err := r.ReadString('\n')
		must.CheckThat(t, got == text && err == nil, "%q, %v, want %q", got, err, text)
	}
	close(next)
	_, err := r.ReadString('\n')
	must.CheckThat(t, err != nil && err != io.EOF, "the stream ends with %v, want that it breaks", err)
}

func TestABodyIsForwardedAtOnce(t *testing.T) {
	first := make(chan struct{})
	_, proxy := through(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "4") // net/http sends bodies without a length at once
		_, _ = io.WriteString(w, "[1")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-first:
			_, _ = io.WriteString(w, "1]")
		case <-r.Context().Done():
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, proxy.URL, nil))(t)
	resp := must.Get(http.DefaultClient.Do(req))(t)
	defer resp.Body.Close()
	must.Get(io.ReadFull(resp.Body, make([]byte, 2)))(t)
	close(first)
	rest := must.Get(io.ReadAll(resp.Body))(t)
	must.CheckEqual(t, len(rest), 2, rest)
}

func TestTheServerSeesThatTheClientHasGone(t *testing.T) {
	gone := make(chan struct{})
	_, proxy := through(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(gone)
	})
	ctx, cancel := context.WithCancel(t.Context())
	req := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, proxy.URL, nil))(t)
	resp := must.Get(http.DefaultClient.Do(req))(t)
	cancel()
	<-gone
	resp.Body.Close()
}

func TestTheEndpointNamesTheProxy(t *testing.T) {
	var server *httptest.Server
	var proxy *httptest.Server
	server, proxy = through(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/old" {
			http.Redirect(w, r, server.URL+"/new?a=b", http.StatusTemporaryRedirect)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, text := range strings.SplitAfter(strings.ReplaceAll(r.URL.Query().Get("stream"), "SERVER", server.URL),
			"") {
			_, _ = io.WriteString(w, text)
			_ = http.NewResponseController(w).Flush()
		}
	})
	for stream, want := range map[string]string{
		"event: endpoint\ndata: SERVER/m?s=1\n\ndata: SERVER/x\n\n": "event: endpoint\ndata: PROXY/m?s=1\n\ndata: " +
			"SERVER/x\n\n",
		": c\r\n\r\nevent:endpoint\r\ndata:SERVER\r\n\r\n": ": c\r\n\r\nevent:endpoint\r\ndata:PROXY\r\n\r\n",
		"event: endpoint\ndata: /m\n\n":                    "event: endpoint\ndata: /m\n\n",
		"event: endpoint\ndata: SERVER.example/m\n\n":      "event: endpoint\ndata: SERVER.example/m\n\n",
		"data: SERVER/m\n\nevent: endpoint\ndata: SERVER/m\n\n": "data: SERVER/m\n\nevent: endpoint\ndata: " +
			"SERVER/m\n\n",
		"event: endpo": "event: endpo",
		"id: " + strings.Repeat("1", maxEndpoint) + "\ndata: SERVER/m\n\n": "id: " + strings.Repeat("1", maxEndpoint) +
			"\ndata: SERVER/m\n\n",
	} {
		resp := must.Get(http.Get(proxy.URL + "/?stream=" + url.QueryEscape(stream)))(t)
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		want = strings.NewReplacer("SERVER", server.URL, "PROXY", proxy.URL).Replace(want)
		must.CheckThat(t, string(got) == want && err == nil, "%.100q, %v\nwant %.100q", got, err, want)
	}
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp := must.Get(c.Get(proxy.URL + "/old"))(t)
	resp.Body.Close()
	must.CheckEqual(t, resp.Header.Get("Location"), proxy.URL+"/new?a=b")
}

func TestAServerThatCannotBeReachedIsABadGateway(t *testing.T) {
	server, proxy := through(t, func(http.ResponseWriter, *http.Request) {})
	server.Close()
	resp := must.Get(http.Get(proxy.URL))(t)
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	must.CheckThat(t, resp.StatusCode == http.StatusBadGateway && strings.Contains(string(body), "connection refused"),
		"%s %s", resp.Status, body)
}

// earlyTransport responds before it reads the body of the request.
type earlyTransport struct {
	received chan struct{} // closed when the client has the beginning of the response
	body     chan string
}

// RoundTrip implements http.RoundTripper.
func (e *earlyTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	r, w := io.Pipe()
	go func() {
		_, _ = io.WriteString(w, "early")
		<-e.received
		body, err := io.ReadAll(req.Body)
		if err != nil {
			body = []byte(err.Error())
		}
		e.body <- string(body)
		w.Close()
	}()
	return &http.Response{StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: r,
		ContentLength: -1, Request: req}, nil
}

func TestAResponseCanBeginBeforeTheEndOfTheRequest(t *testing.T) {
	early := &earlyTransport{received: make(chan struct{}), body: make(chan string, 1)}
	target := must.Get(url.Parse("http://server.example"))(t)
	p := &tapProxy{Target: target, Transport: early, Report: func(recording.Event) {}}
	proxy := httptest.NewServer(p.Handler())
	defer proxy.Close()
	resp := must.Get(http.Post(proxy.URL, "application/json", strings.NewReader("{}")))(t)
	defer resp.Body.Close()
	must.Get(io.ReadFull(resp.Body, make([]byte, len("early"))))(t)
	close(early.received)
	must.CheckEqual(t, <-early.body, "{}", "the server receives")
}

// The test binary is the server if the variable has the name of one.
func TestMain(m *testing.M) {
	if name := os.Getenv("TAP_SERVER"); name != "" {
		os.Exit(servers[name]())
	}
	os.Exit(m.Run())
}

// servers are the programs of the tests.
var servers = map[string]func() int{
	"echo": func() int {
		_, _ = io.Copy(os.Stdout, os.Stdin)
		return 0
	},
	"exit": func() int {
		fmt.Fprintln(os.Stderr, "failed")
		return 5
	},
	"signal": func() int {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM)
		fmt.Println("ready")
		<-signals
		return 6
	},
	"closed": func() int { // reads nothing, and writes until that fails
		signal.Ignore(syscall.SIGPIPE)
		os.Stdin.Close()
		for {
			if _, err := fmt.Println("more"); err != nil {
				return 7
			}
		}
	},
}

// events collects reported messages.
type events struct {
	mu   sync.Mutex
	list []string
}

func (e *events) add(event recording.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if event.End {
		event.Message = []byte("end")
	}
	e.list = append(e.list, string(event.From)+" "+string(event.Message))
}

func (e *events) of(side recording.Side) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(e.list), func(text string) bool {
		return !strings.HasPrefix(text, string(side))
	})
}

// closer is a Writer with a Close that does nothing.
type closer struct{ io.Writer }

func (closer) Close() error { return nil }

func TestEachLineIsForwardedAtOnceAndUnchanged(t *testing.T) {
	t.Setenv("TAP_SERVER", "echo")
	in, client := io.Pipe()
	answers, out := io.Pipe()
	reported := new(events)
	c := tapProgram{Server: transport.CommandOptions{Path: os.Args[0], InheritEnv: true}, In: in, Out: out,
		Stderr: os.Stderr, Report: reported.add}
	ended := make(chan int, 1)
	go func() {
		code, err := c.Run()
		must.Check(t, err)
		ended <- code
	}()
	long := strings.Repeat("x", 200_000)
	for _, lines := range []string{"{\"a\":1}\n", "\r\n", "\xff\n\n", long + "\n"} {
		go func() { _, _ = io.WriteString(client, lines) }()
		got := make([]byte, len(lines))
		must.Do(t, must.Err(io.ReadFull(answers, got)))
		must.That(t, string(got) == lines, "%.50q, want %.50q", got, lines)
	}
	go func() { // a line without an end
		_, _ = io.WriteString(client, "[]")
		client.Close()
	}()
	rest := must.Get(io.ReadAll(answers))(t)
	must.CheckEqual(t, string(rest), "[]", rest)
	must.CheckEqual(t, <-ended, 0, "exit code")
	for _, side := range []recording.Side{recording.Client, recording.Server} {
		var want []string
		for _, line := range []string{`{"a":1}`, "\r", "\xff", long, "[]", "end"} {
			want = append(want, string(side)+" "+line)
		}
		got := reported.of(side)
		must.CheckThat(t, slices.Equal(got, want), "reported %.300q", got)
	}
}

func TestTheExitCodeAndStderrAreThoseOfTheServer(t *testing.T) {
	t.Setenv("TAP_SERVER", "exit")
	var stderr bytes.Buffer
	in, client := io.Pipe()
	defer client.Close()
	c := tapProgram{Server: transport.CommandOptions{Path: os.Args[0], InheritEnv: true}, In: in, Out: closer{io.Discard},
		Stderr: &stderr, Report: new(events).add}
	if code, err := c.Run(); code != 5 || err != nil || stderr.String() != "failed\n" {
		t.Errorf("%d, %v, %q", code, err, stderr.String())
	}
	c.Server.Path = "no-such-program"
	_, err := c.Run()
	must.CheckThat(t, err != nil, "no error of a program that does not exist")
}

func TestSignalsAreForwarded(t *testing.T) {
	for s, want := range map[os.Signal]int{syscall.SIGTERM: 6, syscall.SIGKILL: 137} {
		t.Setenv("TAP_SERVER", "signal")
		signals := make(chan os.Signal, 1)
		in, client := io.Pipe()
		answers, out := io.Pipe()
		c := tapProgram{Server: transport.CommandOptions{Path: os.Args[0], InheritEnv: true}, In: in, Out: out,
			Stderr: os.Stderr, Signals: signals, Report: new(events).add}
		go func() {
			_, _ = io.ReadFull(answers, make([]byte, len("ready\n")))
			signals <- s
		}()
		code, err := c.Run()
		must.CheckThat(t, code == want && err == nil, "%v: exit code %d, %v, want %d", s, code, err, want)
		client.Close()
	}
}

// Without a tap, the server's writes and the client's writes fail when the other side has gone.
func TestClosedStreamsAreClosedOnTheOtherSide(t *testing.T) {
	t.Setenv("TAP_SERVER", "closed")
	in, client := io.Pipe()
	answers, out := io.Pipe()
	c := tapProgram{Server: transport.CommandOptions{Path: os.Args[0], InheritEnv: true}, In: in, Out: out,
		Stderr: os.Stderr, Report: new(events).add}
	ended := make(chan int, 1)
	go func() {
		code, _ := c.Run()
		ended <- code
	}()
	_, _ = io.ReadFull(answers, make([]byte, len("more\n")))
	for {
		if _, err := client.Write([]byte("x")); err != nil {
			break
		}
	}
	answers.Close()
	must.CheckEqual(t, <-ended, 7, "exit code")
}
