package replay

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
