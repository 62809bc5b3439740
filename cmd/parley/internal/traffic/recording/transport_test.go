package recording

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/transport"
)

// reports collects events as text.
type reports struct {
	mu    sync.Mutex
	lines []string
}

func (r *reports) add(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := fmt.Sprintf("%d %s", e.Exchange, e.From)
	if e.Request != nil {
		text += " " + e.Request.Method
		if strings.HasPrefix(e.Request.URL, "http://named/") {
			text += " " + e.Request.URL
		}
	}
	if e.Response != nil {
		text += fmt.Sprintf(" %d", e.Response.Status)
	}
	if e.Stream != nil {
		text += fmt.Sprintf(" %+v", *e.Stream)
	}
	if e.Message != nil {
		text += fmt.Sprintf(" %q", e.Message)
	}
	if e.Truncated {
		text += " truncated"
	}
	if e.End {
		text += " end"
	}
	if e.Error != "" {
		text += " error"
	}
	r.lines = append(r.lines, text)
}

func TestTransportReportsRequestsAndResponses(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); string(body) != "" {
			_, _ = io.WriteString(w, "answer to "+string(body))
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w,
			": comment\nid: 1\nretry: 5\n\ndata: a\r\ndata:b\r\n\r\nevent: endpoint\rdata: /x\r\rdata\ndata: "+
				"c\n\ndata: unfinished")
	}))
	defer s.Close()
	got := new(reports)
	c := &http.Client{Transport: &Transport{Base: s.Client().Transport, Report: got.add}}
	send := func(body io.Reader) string {
		req := must.Get(http.NewRequest(http.MethodPost, s.URL, body))(t)
		resp := must.Get(c.Do(req))(t)
		defer resp.Body.Close()
		text := must.Get(io.ReadAll(resp.Body))(t)
		return string(text)
	}
	must.CheckEqual(t, send(strings.NewReader("one")), "answer to one")
	// without GetBody
	must.CheckEqual(t, send(io.MultiReader(strings.NewReader("t"), strings.NewReader("wo"))), "answer to two")
	text := send(nil)
	must.CheckThat(t, strings.HasSuffix(text, "unfinished"), "%v", text)
	want := []string{
		`1 client POST "one"`, `1 server 200 "answer to one" end`,
		`2 client POST "two"`, `2 server 200 "answer to two" end`,
		`3 client POST`, `3 server 200`, `3 server {ID:1 Name: Retry:5}`, `3 server {ID: Name: Retry:} "a\nb"`,
		`3 server {ID: Name:endpoint Retry:} "/x"`, `3 server {ID: Name: Retry:} "\nc"`, `3 server end`,
	}
	if !slices.Equal(got.lines, want) {
		t.Errorf("reported\n%s\nwant\n%s", strings.Join(got.lines, "\n"), strings.Join(want, "\n"))
	}
}

// A client can send its next request when it has the last byte of a response.
func TestTransportReportsAResponseBeforeItsLastByteIsRead(t *testing.T) {
	for text, want := range map[string]string{"": "1 server 200 end", "abc": `1 server 200 "abc" end`} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(text)))
			_, _ = io.WriteString(w, text)
		}))
		got := new(reports)
		resp, err := (&http.Client{Transport: &Transport{Base: s.Client().Transport, Report: got.add}}).Get(s.URL)
		must.Do(t, err)
		// Read one byte at a time, without the io.EOF after the last one.
		for range text {
			must.Get(io.ReadFull(resp.Body, make([]byte, 1)))(t)
		}
		want := []string{"1 client GET", want}
		must.CheckThat(t, slices.Equal(got.lines, want), "got %q, want %q", got.lines, want)
		resp.Body.Close()
		must.CheckEqual(t, len(got.lines), 2, got.lines, "after Close")
		s.Close()
	}
}

func TestTransportReportsWhoEndsAStream(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		if r.Method == http.MethodGet {
			<-r.Context().Done()
		}
		panic(http.ErrAbortHandler)
	}))
	defer s.Close()
	got := new(reports)
	c := &http.Client{Transport: &Transport{Base: s.Client().Transport, Report: got.add}}
	resp, err := c.Get(s.URL)
	must.Do(t, err)
	must.Check(t, must.Err(io.ReadFull(resp.Body, make([]byte, 9))))
	resp.Body.Close()
	resp, err = c.Post(s.URL, "text/plain", nil)
	must.Do(t, err)
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the stream has ended regularly")
	}
	resp.Body.Close()
	s.Close()
	if _, err := c.Get(s.URL); err == nil {
		t.Error("no error of a server that has ended")
	}
	want := []string{
		`1 client GET`, `1 server 200`, `1 server {ID: Name: Retry:} "1"`, `1 client end`,
		`2 client POST`, `2 server 200`, `2 server {ID: Name: Retry:} "1"`, `2 server end error`,
		`3 client GET`, `3 server end error`,
	}
	for i, line := range got.lines {
		got.lines[i] = strings.Replace(line, ` "" end`, ` end`, 1)
	}
	if !slices.Equal(got.lines, want) {
		t.Errorf("reported\n%s\nwant\n%s", strings.Join(got.lines, "\n"), strings.Join(want, "\n"))
	}
}

// observed returns a server whose requests and responses are reported.
func observed(t *testing.T, handler http.HandlerFunc) (*httptest.Server, *reports) {
	t.Helper()
	got := new(reports)
	o := &Observer{Origin: "http://named", Report: func(_ *http.Request, e Event) { got.add(e) }}
	s := httptest.NewServer(o.Handler(handler))
	t.Cleanup(s.Close)
	return s, got
}

// check compares what was reported after the server has ended.
func check(t *testing.T, s *httptest.Server, got *reports, want ...string) {
	t.Helper()
	s.Close() // waits for the handlers
	for i, line := range got.lines {
		got.lines[i] = strings.Replace(line, ` "" end`, ` end`, 1)
	}
	if !slices.Equal(got.lines, want) {
		t.Errorf("reported\n%s\nwant\n%s", strings.Join(got.lines, "\n"), strings.Join(want, "\n"))
	}
}

func TestObserverReportsRequestsAndResponses(t *testing.T) {
	s, got := observed(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/unread" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		body, err := io.ReadAll(r.Body)
		must.Check(t, err)
		if r.URL.Path == "/stream" {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			_, _ = io.WriteString(w, "data: 1\n\nid: 2\nda")
			must.Check(t, http.NewResponseController(w).Flush())
			_, _ = io.WriteString(w, "ta: 2\n\n")
			return
		}
		if len(body) > 0 {
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, "answer to ")
			_, _ = w.Write(body)
		}
	})
	for _, request := range []struct{ path, body, want string }{
		{"/a?b", "one", "answer to one"},
		{"/", "", ""},
		{"/stream", "two", "data: 1\n\nid: 2\ndata: 2\n\n"},
		{"/unread", strings.Repeat("3", 9000), "no\n"},
	} {
		resp := must.Get(http.Post(s.URL+request.path, "text/plain", strings.NewReader(request.body)))(t)
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		must.CheckThat(t, err == nil && string(body) == request.want,
			"%s: %q, %v, want %q", request.path, body, err, request.want)
	}
	check(t, s, got,
		`1 client POST http://named/a?b "one"`, `1 server 202 "answer to one" end`,
		`2 client POST http://named/`, `2 server 200 end`,
		`3 client POST http://named/stream "two"`, `3 server 200`, `3 server {ID: Name: Retry:} "1"`,
		`3 server {ID:2 Name: Retry:} "2"`, `3 server end`,
		`4 client POST http://named/unread "`+strings.Repeat("3", 9000)+`"`, `4 server 401 "no\n" end`,
	)
}

func TestObserverReportsWhoEndsAStream(t *testing.T) {
	s, got := observed(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		if r.Method == http.MethodGet {
			<-r.Context().Done()
			return
		}
		panic(http.ErrAbortHandler)
	})
	resp, err := http.Get(s.URL)
	must.Do(t, err)
	must.Check(t, must.Err(io.ReadFull(resp.Body, make([]byte, 9))))
	resp.Body.Close()
	s.CloseClientConnections()
	resp, err = http.Post(s.URL, "text/plain", nil)
	must.Do(t, err)
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the stream has ended regularly")
	}
	resp.Body.Close()
	s.Close()
	slices.SortStableFunc(got.lines, func(a, b string) int { return strings.Compare(a[:1], b[:1]) })
	check(t, s, got,
		`1 client GET http://named/`, `1 server 200`, `1 server {ID: Name: Retry:} "1"`, `1 client end`,
		`2 client POST http://named/`, `2 server 200`, `2 server {ID: Name: Retry:} "1"`, `2 server end error`,
	)
}

func TestServerConnReportsBothDirections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := transport.Pipe()
		got := new(reports)
		conn := ServerConn(far, got.add)
		ctx := context.Background()
		must.Do(t, near.Write(ctx, []byte(`{"id":1}`)))
		msg := must.Get(conn.Read(ctx))(t)
		must.Equal(t, string(msg), `{"id":1}`, msg)
		must.Do(t, conn.Write(ctx, []byte(`{"id":2}`)))
		if msg, err := near.Read(ctx); err != nil || string(msg) != `{"id":2}` {
			t.Fatalf("%s, %v", msg, err)
		}
		near.Close()
		_, err := conn.Read(ctx)
		must.That(t, err == io.EOF, "%v", err)
		conn.Close()
		want := []string{`0 client "{\"id\":1}"`, `0 server "{\"id\":2}"`, `0 client end`}
		must.CheckThat(t, slices.Equal(got.lines, want), "reported %q", got.lines)
	})
}
