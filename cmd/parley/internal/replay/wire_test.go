package replay

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

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
