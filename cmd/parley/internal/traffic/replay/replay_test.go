package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/cmd/parley/internal/traffic/recording"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/transport"
)

// entries parses the events of a recording without their times.
func entries(t *testing.T, lines ...string) []recording.Entry {
	t.Helper()
	_, out, err := recording.ReadAll(strings.NewReader(`{"parleyRecording":1}` + "\n" + strings.Join(lines, "\n")))
	must.Do(t, err)
	return out
}

// replayed returns the report of a replay to a server.
func replayed(t *testing.T, handler http.HandlerFunc, o Options, lines ...string) *Report {
	t.Helper()
	s := httptest.NewServer(handler)
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	report := must.Get(ToURL(ctx, "http://recorded/mcp", entries(t, lines...), s.URL, o))(t)
	return report
}

const (
	request = `{"from":"client","wire":"http","exchange":1,"request":{"method":"POST","url":"http://recorded/mcp",` +
		`"headers":{"Authorization":["Bearer redacted-1"],"X-Kept":["1"]}},"message":{"jsonrpc":"2.0","id":1,` +
		`"method":"tools/call","params":{"name":"a"}}}`
	answer = `{"from":"server","wire":"http","exchange":1,"response":{"status":200,` +
		`"headers":{"Mcp-Session-Id":["old-session"]}},"message":{"jsonrpc":"2.0","id":1,` +
		`"result":{"nextCursor":"old","n":1}},"end":true}`
	next = `{"from":"client","wire":"http","exchange":2,"request":{"method":"POST","url":"http://recorded/mcp",` +
		`"headers":{"Mcp-Session-Id":["old-session"]}},"message":{"jsonrpc":"2.0","id":2,"method":"tools/list",` +
		`"params":{"cursor":"old"}}}`
)

func TestValuesOfTheServerAreMapped(t *testing.T) {
	var got []string
	report := replayed(t, func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, r.ContentLength)
		_, _ = r.Body.Read(body)
		got = append(got, fmt.Sprintf("%s %s %s %s", r.Header.Get("Authorization"), r.Header.Get("X-Kept"),
			r.Header.Get("Mcp-Session-Id"), body))
		w.Header().Set("Mcp-Session-Id", "new")
		w.Header()["Content-Type"] = nil
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%d,"result":{"nextCursor":"new","n":1}}`, len(got))
	}, Options{}, request, answer, next, `{"from":"server","wire":"http","exchange":2,"response":{"status":200,`+
		`"headers":{"Mcp-Session-Id":["old-session"]}},"message":{"jsonrpc":"2.0","id":2,`+
		`"result":{"nextCursor":"older","n":1}},"end":true}`)
	want := []string{` 1  {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`,
		`  new {"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":"new"}}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if report.Requests != 2 || len(report.Differences) > 0 {
		t.Errorf("%+v", report)
	}
}

func TestDifferencesAreReported(t *testing.T) {
	report := replayed(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write([]byte("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"," +
			"\"params\":{}}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"n\":2}}\n\n"))
	}, Options{}, request, answer)
	want := []Difference{
		{Line: 3, Subject: "HTTP response to tools/call a", Problem: Different,
			Changes: []Change{{"status", "200", "202"}, {"Content-Type", "", "text/event-stream"},
				{"Mcp-Session-Id", "old-session", ""}}},
		{Line: 3, Subject: "response to tools/call a", Problem: Different,
			Changes: []Change{{"/result/n", "1", "2"}, {"/result/nextCursor", `"old"`, ""}}},
		{Subject: "notifications/message", Problem: Unexpected,
			Message: `{"jsonrpc":"2.0","method":"notifications/message","params":{}}`},
	}
	if diff := cmp.Diff(want, report.Differences); diff != "" {
		t.Error(diff)
	}
}

func TestAMissingResponseIsReported(t *testing.T) {
	report := replayed(t, func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler)
	}, Options{}, request, answer)
	if len(report.Differences) != 2 || report.Differences[0].Problem != Missing ||
		report.Differences[1].Problem != Missing {
		t.Errorf("%+v", report.Differences)
	}
	report = replayed(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server notices the end of the connection only then
		<-r.Context().Done()
	}, Options{Timeout: time.Millisecond}, request, answer)
	if len(report.Differences) != 3 || report.Differences[2].Subject != "end of the response to tools/call a" {
		t.Errorf("%+v", report.Differences)
	}
}

// A server may merge notifications of changes. It must send one for changes after another request.
func TestNotificationsOfChangesMayBeMerged(t *testing.T) {
	const (
		changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
		updated = `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"note://a"}}`
		result  = `{"jsonrpc":"2.0","id":1,"result":{}}`
		other   = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`
	)
	recordedAs := func(messages ...string) []string {
		lines := []string{request, `{"from":"server","wire":"http","exchange":1,"response":{"status":200,` +
			`"headers":{"Content-Type":["text/event-stream"]}}}`}
		for _, m := range messages {
			lines = append(lines, `{"from":"server","wire":"http","exchange":1,"stream":{},"message":`+m+`}`)
		}
		return append(lines, `{"from":"server","wire":"http","exchange":1,"end":true}`)
	}
	for _, c := range []struct {
		recorded, replayed []string
		differences        int
	}{
		{[]string{changed, changed, result}, []string{changed, result}, 0},
		{[]string{changed, result}, []string{changed, changed, result}, 0},
		{[]string{updated, changed, updated, result}, []string{updated, changed, result}, 0},
		{[]string{updated, result}, []string{result}, 1},
		{[]string{other, other, result}, []string{other, result}, 1},
		{[]string{other, result}, []string{other, other, result}, 1},
	} {
		report := replayed(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for _, m := range c.replayed {
				_, _ = fmt.Fprintf(w, "data: %s\n\n", m)
			}
		}, Options{}, recordedAs(c.recorded...)...)
		if len(report.Differences) != c.differences {
			t.Errorf("recorded %q, replayed %q: %+v", c.recorded, c.replayed, report.Differences)
		}
	}
	lines := recordedAs(changed, changed, result)
	lines = slices.Insert(lines, 3, strings.Replace(request, `"exchange":1`, `"exchange":2`, 1))
	report := replayed(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "data: %s\n\ndata: %s\n\n", changed, result)
	}, Options{}, lines...)
	if len(report.Differences) == 0 || report.Differences[0].Problem != Missing ||
		report.Differences[0].Subject != "notifications/tools/list_changed" {
		t.Errorf("a change after another request is not reported as missing: %+v", report.Differences)
	}
}

func TestRequestsToOtherServersAreSkipped(t *testing.T) {
	report := replayed(t, func(http.ResponseWriter, *http.Request) { t.Error("received a request") }, Options{},
		strings.ReplaceAll(request, "http://recorded", "https://issuer"), answer,
		strings.ReplaceAll(next, "/mcp", "/other"))
	if report.Skipped != 2 || report.Requests != 0 {
		t.Errorf("%+v", report)
	}
}

func TestThePaceOfTheClientIsKept(t *testing.T) {
	var times []time.Time
	begin := time.Now()
	timed := func(text, at string) string { return `{"time":"2026-08-01T12:00:` + at + `Z",` + text[1:] }
	replayed(t, func(w http.ResponseWriter, _ *http.Request) { times = append(times, time.Now()) }, Options{Pace: true},
		timed(request, "00"), `{"from":"server","wire":"http","exchange":1,"response":{"status":200},"end":true}`,
		timed(next, "00.2"),
		`{"from":"server","wire":"http","exchange":2,"response":{"status":200},"end":true}`)
	if len(times) != 2 || times[1].Sub(begin) < 200*time.Millisecond {
		t.Errorf("the replay began at %v, and the server received the requests at %v", begin, times)
	}
}

const inSession = `"request":{"method":"%s","url":"http://recorded/mcp","headers":{"Mcp-Session-Id":["s"]}}`

// The order of the end of a session and of other responses depends on time.
func TestTheReplayDoesNotEndSessions(t *testing.T) {
	get := strings.Replace(inSession, "%s", "GET", 1)
	var mu sync.Mutex
	var got []string
	report := replayed(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		got = append(got, r.Method)
		mu.Unlock()
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	}, Options{Timeout: 10 * time.Second}, `{"from":"client","wire":"http","exchange":1,`+get+`}`,
		`{"from":"server","wire":"http","exchange":1,"response":{"status":200,`+
			`"headers":{"Content-Type":["text/event-stream"]}}}`,
		`{"from":"client","wire":"http","exchange":2,`+strings.Replace(inSession, "%s", "DELETE", 1)+`}`,
		`{"from":"client","wire":"http","exchange":3,`+get+`}`,
		`{"from":"server","wire":"http","exchange":1,"end":true}`,
		`{"from":"server","wire":"http","exchange":2,"response":{"status":204},"end":true}`,
		`{"from":"server","wire":"http","exchange":3,"response":{"status":404},"end":true}`)
	if len(report.Differences) > 0 || !slices.Equal(got, []string{"GET"}) {
		t.Errorf("the server has received %q: %+v", got, report)
	}
}

func TestARecordingMustHaveTheTransportOfTheServer(t *testing.T) {
	_, err := ToURL(t.Context(), "http://recorded/mcp", entries(t, `{"from":"client","wire":"stdio","message":{}}`),
		"http://127.0.0.1:1", Options{})
	if want := "line 2 is stdio, and the server has http; parley bridge translates between them"; !errors.Is(err,
		ErrWire) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	if _, err := ToCommand(t.Context(), entries(t, request), transport.CommandOptions{Path: "no-such-program"},
		Options{}); !errors.Is(err, ErrWire) {
		t.Errorf("got %v", err)
	}
}

func TestChangesAreFound(t *testing.T) {
	for _, test := range []struct {
		recorded, replayed string
		want               []Change
	}{
		{`{"a":1}`, `{"a":2}`, []Change{{"/a", "1", "2"}}},
		{`{"a":1}`, `{"b":1}`, []Change{{"/a", "1", ""}, {"/b", "", "1"}}},
		{`{"skip":{"a":1},"list":[{"t":1},{"t":2}]}`, `{"skip":2,"list":[{"t":3},{}]}`, nil},
		{`{"result":{"nextCursor":"a","requestState":"b"}}`, `{"result":{"nextCursor":"c","requestState":"d"}}`, nil},
		{`{"result":{"nextCursor":"a"}}`, `{"result":{}}`, []Change{{"/result/nextCursor", `"a"`, ""}}},
	} {
		ignore := must.Get(ParsePaths([]string{"/skip", "/list/*/t"}))(t)
		got := compare([]byte(test.recorded), []byte(test.replayed), ignore, func(string, string) {})
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s and %s:\n%s", test.recorded, test.replayed, diff)
		}
	}
}

func TestPathsMustBeJSONPointers(t *testing.T) {
	for _, path := range []string{"", "result", "/a~2"} {
		if _, err := ParsePaths([]string{path}); err == nil {
			t.Errorf("%q: no error", path)
		}
	}
}
