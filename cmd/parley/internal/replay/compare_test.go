package replay

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestChangesAreFound(t *testing.T) {
	for _, test := range []struct {
		recorded, replayed string
		want               []Change
	}{
		{`{"a":1,"b":[1,{"c":"x"}]}`, `{ "b":[1, {"c":"\u0078"}], "a":1.0}`, nil},
		{`{"a":1}`, `{"a":2}`, []Change{{"/a", "1", "2"}}},
		{`{"a":9007199254740993}`, `{"a":9007199254740992}`, []Change{{"/a", "9007199254740993", "9007199254740992"}}},
		{`{"a":1}`, `{"b":1}`, []Change{{"/a", "1", ""}, {"/b", "", "1"}}},
		{`{"a":[1,2]}`, `{"a":[1]}`, []Change{{"/a/1", "2", ""}}},
		{`{"a":[1]}`, `{"a":[1,{}]}`, []Change{{"/a/1", "", "{}"}}},
		{`{"a":"1"}`, `{"a":1}`, []Change{{"/a", `"1"`, "1"}}},
		{`{"a/b":{"~":null}}`, `{"a/b":{"~":false}}`, []Change{{"/a~1b/~0", "null", "false"}}},
		{`{"skip":{"a":1},"list":[{"t":1},{"t":2}]}`, `{"skip":2,"list":[{"t":3},{}]}`, nil},
		{`{"result":{"nextCursor":"a","requestState":"b"}}`, `{"result":{"nextCursor":"c","requestState":"d"}}`, nil},
		{`{"result":{"nextCursor":"a"}}`, `{"result":{}}`, []Change{{"/result/nextCursor", `"a"`, ""}}},
	} {
		ignore, err := ParsePaths([]string{"/skip", "/list/*/t"})
		if err != nil {
			t.Fatal(err)
		}
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

func TestRequestsAreOrderedAroundTheEndOfTheirSession(t *testing.T) {
	messages := map[string]string{
		"response":   "",
		"result":     `,"message":{"jsonrpc":"2.0","id":1,"result":{}}`,
		"tool-error": `,"message":{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":true}}`,
	}
	for recorded, want := range map[string]string{
		// The session was not found: the request follows the response to the DELETE request.
		"DELETE 1, GET 2, response 1 204, response 2 404":                        "DELETE 1, response 1 204, GET 2, response 2 404",
		"GET 2, DELETE 1, response 1 204, response 2 404":                        "DELETE 1, response 1 204, GET 2, response 2 404",
		"GET 2, DELETE 1, response 2 404, response 1 204":                        "DELETE 1, response 1 204, GET 2, response 2 404",
		"GET 2, DELETE 1, response 2 404, GET 3, response 1 204, response 3 200": "GET 3, response 3 200, DELETE 1, response 1 204, GET 2, response 2 404",
		// The response came before that of the DELETE request, which follows it.
		"DELETE 1, GET 2, response 2 200, response 1 204": "GET 2, response 2 200, DELETE 1, response 1 204",
		"GET 2, DELETE 1, response 2 200, response 1 204": "GET 2, response 2 200, DELETE 1, response 1 204",
		"GET 2, DELETE 1, response 1 204, response 2 200": "GET 2, response 2 200, DELETE 1, response 1 204",
		"POST 2, DELETE 1, response 1 204, result 2 200":  "POST 2, result 2 200, DELETE 1, response 1 204",
		// The end of a stream follows the DELETE request that is the reason.
		"GET 3, response 3 200, POST 2, DELETE 1, end 3, response 1 204, result 2 200": "GET 3, response 3 200, POST 2, result 2 200, DELETE 1, end 3, response 1 204",
		// The end of the session may have ended the call.
		"POST 2, DELETE 1, response 1 204, response 2 200":   "POST 2, DELETE 1, response 1 204, response 2 200",
		"POST 2, DELETE 1, response 1 204, tool-error 2 200": "POST 2, DELETE 1, response 1 204, tool-error 2 200",
		// Nothing is in flight.
		"POST 2, response 2 404, DELETE 1, response 1 204, GET 3, response 3 404": "POST 2, response 2 404, DELETE 1, response 1 204, GET 3, response 3 404",
		"DELETE 1": "DELETE 1",
		// Each session has its own end.
		"DELETE 1 a, DELETE 2 b, GET 3 b, response 1 204, response 2 204, response 3 404": "DELETE 1 a, DELETE 2 b, response 1 204, response 2 204, GET 3 b, response 3 404",
		"POST 3 b, DELETE 1 a, result 3 200, response 1 204":                              "POST 3 b, DELETE 1 a, result 3 200, response 1 204",
		"DELETE 1 a, DELETE 2 a, response 1 204, response 2 404":                          "DELETE 1 a, response 1 204, DELETE 2 a, response 2 404",
	} {
		var lines []string
		for text := range strings.SplitSeq(recorded, ", ") {
			words := strings.Fields(text)
			if words[0] == "end" {
				lines = append(lines, `{"from":"server","wire":"http","exchange":`+words[1]+`,"end":true}`)
			} else if message, isResponse := messages[words[0]]; isResponse {
				lines = append(lines, `{"from":"server","wire":"http","exchange":`+words[1]+`,"response":{"status":`+words[2]+`}`+message+`}`)
			} else {
				session := strings.Join(words[2:], "")
				lines = append(lines, `{"from":"client","wire":"http","exchange":`+words[1]+`,"request":{"method":"`+words[0]+`","headers":{"Mcp-Session-Id":["`+session+`"]}}}`)
			}
		}
		all := entries(t, lines...)
		texts := strings.Split(recorded, ", ")
		var got []string
		for _, e := range ordered(all) {
			got = append(got, texts[e.Line-2])
		}
		if !slices.Equal(got, strings.Split(want, ", ")) {
			t.Errorf("%s: %q, want %s", recorded, got, want)
		}
	}
}

func TestMessagesOfHTTPAreThoseOfStreams(t *testing.T) {
	post := func(exchange int, headers, message string) string {
		return fmt.Sprintf(`{"from":"client","wire":"http","exchange":%d,"request":{"method":"POST","url":"http://recorded/mcp","headers":{%s}},"message":%s}`, exchange, headers, message)
	}
	reply := func(exchange, status int, headers, message string) string {
		return fmt.Sprintf(`{"from":"server","wire":"http","exchange":%d,"response":{"status":%d,"headers":{%s}}%s,"end":true}`, exchange, status, headers, message)
	}
	const (
		modern  = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`
		session = `"Mcp-Session-Id":["s%d"]`
	)
	for name, test := range map[string]struct{ lines, want []string }{
		"sessions": {
			[]string{
				post(1, "", `{"id":1,"method":"initialize"}`), reply(1, 200, fmt.Sprintf(session, 1), `,"message":{"id":1,"result":{}}`),
				post(2, "", `{"id":1,"method":"initialize"}`), reply(2, 200, fmt.Sprintf(session, 2), `,"message":{"id":1,"result":{}}`),
				post(3, fmt.Sprintf(session, 1), `{"method":"a"}`), reply(3, 202, "", ""),
				`{"from":"client","wire":"http","exchange":4,"request":{"method":"GET","url":"http://recorded/mcp","headers":{"Mcp-Session-Id":["s1"]}}}`,
				`{"from":"server","wire":"http","exchange":4,"response":{"status":200}}`, `{"from":"server","wire":"http","exchange":4,"event":{},"message":{"id":5,"method":"ping"}}`,
				post(5, fmt.Sprintf(session, 1), `{"id":5,"result":{}}`), reply(5, 202, "", ""),
				`{"from":"client","wire":"http","exchange":6,"request":{"method":"DELETE","url":"http://recorded/mcp","headers":{"Mcp-Session-Id":["s1"]}}}`,
			},
			[]string{
				`1 client {"id":1,"method":"initialize"}`, `1 server {"id":1,"result":{}}`, `2 client {"id":1,"method":"initialize"}`, `2 server {"id":1,"result":{}}`,
				`1 client {"method":"a"}`, `1 server {"id":5,"method":"ping"}`, `1 client {"id":5,"result":{}}`, `1 client end`,
			},
		},
		"HTTP+SSE": {
			[]string{
				`{"from":"client","wire":"http","exchange":1,"request":{"method":"GET","url":"http://recorded/mcp"}}`, `{"from":"server","wire":"http","exchange":1,"response":{"status":200}}`,
				`{"from":"server","wire":"http","exchange":1,"event":{"name":"endpoint"},"text":"/m?s=1"}`,
				strings.Replace(post(2, "", `{"id":1,"method":"initialize"}`), "/mcp", "/m?s=1", 1), reply(2, 202, "", `,"text":"Accepted"`),
				`{"from":"server","wire":"http","exchange":1,"event":{},"message":{"id":1,"result":{}}}`, `{"from":"client","wire":"http","exchange":1,"end":true}`,
			},
			[]string{`1 client {"id":1,"method":"initialize"}`, `1 server {"id":1,"result":{}}`, `1 client end`},
		},
		"requests with equal ids": {
			[]string{
				post(1, "", `{"id":1,"method":"a","params":{"n":1`+modern+`}}`), post(2, "", `{"id":1,"method":"b","params":{"n":2`+modern+`}}`),
				reply(2, 200, "", `,"message":{"id":1,"result":{}}`), post(3, "", `{"id":1,"method":"c","params":{"n":3`+modern+`}}`),
				`{"from":"client","wire":"http","exchange":1,"end":true}`, reply(3, 404, "", `,"message":{"id":1,"error":{}}`),
			},
			[]string{
				`1 client {"id":1,"method":"a","params":{"n":1` + modern + `}}`, `2 client {"id":1,"method":"b","params":{"n":2` + modern + `}}`, `2 server {"id":1,"result":{}}`,
				`2 client {"id":1,"method":"c","params":{"n":3` + modern + `}}`,
				`1 client {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, `2 server {"id":1,"error":{}}`,
			},
		},
		"skipped": {
			[]string{
				post(1, "", `{"id":1,"method":"initialize"}`), reply(1, 401, "", `,"text":"no token"`),
				strings.Replace(post(2, "", `"x"`), "recorded", "issuer", 1), reply(2, 200, "", `,"message":{"access_token":"x"}`),
				strings.Replace(post(3, "", `{"id":1,"method":"a"}`), "/mcp", "/other", 1), reply(3, 200, "", `,"message":{"id":1,"result":{}}`),
			},
			[]string{"skipped 3"},
		},
	} {
		u, err := url.Parse("http://recorded/mcp")
		if err != nil {
			t.Fatal(err)
		}
		messages, skipped := onStreams(u, entries(t, test.lines...))
		var got []string
		for _, e := range messages {
			text := string(e.Message)
			if e.End {
				text = "end"
			}
			got = append(got, fmt.Sprintf("%d %s %s", e.Exchange, e.From, text))
		}
		if skipped > 0 {
			got = append(got, fmt.Sprintf("skipped %d", skipped))
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// overHTTP returns a recording of stdio with the messages, which begin with the side.
func overHTTP(messages ...string) (lines []string) {
	for _, text := range messages {
		side, message, _ := strings.Cut(text, " ")
		lines = append(lines, `{"from":"`+side+`","wire":"stdio","message":`+message+`}`)
	}
	return lines
}

const (
	modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`
	callOfA    = `client {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"zone":"x"},` + modernMeta + `}}`
)

func TestCallsRepeatParametersInHeaders(t *testing.T) {
	var mu sync.Mutex
	var got []string
	report := replayed(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Header.Get("Mcp-Method")+" "+r.Header.Get("Mcp-Name")+" "+r.Header.Get("Mcp-Param-Zone")+" "+r.Header.Get("Mcp-Protocol-Version"))
		w.Header().Set("Content-Type", "application/json")
		switch {
		case bytes.Contains(body, []byte(`"cursor":"2"`)):
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":"parley-replay-2","result":{"tools":[{"name":"a","inputSchema":{"type":"object","properties":{"zone":{"type":"string","x-mcp-header":"Zone"}}}}]}}`)
		case bytes.Contains(body, []byte("tools/list")):
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":"parley-replay-1","result":{"tools":[],"nextCursor":"2"}}`)
		default:
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
		}
	}, Options{Header: http.Header{"Mcp-Param-Zone": {"replaced"}}}, overHTTP(callOfA, `server {"jsonrpc":"2.0","id":1,"result":{}}`)...)
	want := []string{"tools/list  replaced 2026-07-28", "tools/list  replaced 2026-07-28", "tools/call a x 2026-07-28"}
	if diff := cmp.Diff(want, got); diff != "" || report.Requests != 1 || len(report.Differences) > 0 {
		t.Errorf("%+v\n%s", report, diff)
	}
}

func TestToolsAreListedOnceForACallOfAToolThatIsNotListed(t *testing.T) {
	var listings atomic.Int64
	report := replayed(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Header.Get("Mcp-Method") == "tools/list" {
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":"parley-replay-%d","result":{"tools":[]}}`, listings.Add(1))
			return
		}
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	}, Options{}, overHTTP(callOfA, `server {"jsonrpc":"2.0","id":1,"result":{}}`)...)
	if listings.Load() != 1 || report.Requests != 1 || len(report.Differences) > 0 {
		t.Errorf("%d requests for the list, %+v", listings.Load(), report)
	}
}

func TestAFailedRequestIsReportedWithItsReason(t *testing.T) {
	report := replayed(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) }, Options{},
		overHTTP(callOfA, `server {"jsonrpc":"2.0","id":1,"result":{}}`)...)
	if len(report.Differences) != 1 || report.Differences[0].Problem != Missing || !strings.Contains(report.Differences[0].Message, "403") {
		t.Errorf("%+v", report)
	}
}

func TestACancelledRequestIsClosed(t *testing.T) {
	closed := make(chan struct{})
	report := replayed(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Header.Get("Mcp-Method") == "tools/list" {
			select {
			case <-closed:
			case <-r.Context().Done():
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":2,"result":{}}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\"}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(closed)
	}, Options{Timeout: 10 * time.Second}, overHTTP(
		`client {"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{`+modernMeta+`}}`, `server {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged"}`,
		`client {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, `server {"jsonrpc":"2.0","id":1,"result":{}}`,
		`client {"jsonrpc":"2.0","id":2,"method":"tools/list","params":{`+modernMeta+`}}`, `server {"jsonrpc":"2.0","id":2,"result":{}}`)...)
	if len(report.Differences) > 0 || report.Skipped > 0 {
		t.Errorf("%+v", report)
	}
}

func TestOnlySingleMessagesAreSentOverHTTP(t *testing.T) {
	report := replayed(t, func(http.ResponseWriter, *http.Request) { t.Error("received a request") }, Options{},
		slices.Concat(overHTTP(`client [{"jsonrpc":"2.0","method":"a"}]`), []string{`{"from":"client","wire":"stdio","text":"no JSON"}`})...)
	if report.Skipped != 2 || report.Requests != 0 {
		t.Errorf("%+v", report)
	}
}
