package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// excesses returns results that exceed a limit, keyed by the name of the limit.
func excesses() map[string]string {
	var members strings.Builder
	for i := range 10_001 {
		fmt.Fprintf(&members, `,"%d":0`, i)
	}
	result := func(value string) string { return `"result":{"content":[],"structuredContent":` + value + `}` }
	return map[string]string{
		"MaxMembers": result("{" + members.String()[1:] + "}"),
		"MaxDepth":   result(strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200)),
		"MaxTokens":  result(`{"a":[0` + strings.Repeat(",0", 1_000_000) + `]}`),
	}
}

// patient returns a Dialer whose calls wait for an hour.
func patient() client.Dialer {
	d := quiet()
	d.Timeouts.Tool = time.Hour
	return d
}

// answeringCalls returns a server for every form of a response over HTTP. Each answers tools/call with body.
func answeringCalls(body string) map[string]*mock {
	all := func(handshake string, opened, called reply) map[string][]reply {
		return map[string][]reply{handshake: {opened}, "tools/call": {called}}
	}
	whole := reply{status: 200, body: body}
	event := reply{status: 200, kind: "text/event-stream", body: "data: " + body + "\n\n"}
	old := strings.ReplaceAll(initialized, "2025-06-18", "2024-11-05")
	return map[string]*mock{
		"JSON, 2026-07-28": {answers: all("server/discover", ok(discovered), whole),
			otherwise: status(404, "")},
		"event stream, 2026-07-28": {answers: all("server/discover", ok(discovered), event),
			otherwise: status(404, "")},
		"JSON, session":         {answers: all("initialize", ok(initialized), whole), otherwise: status(404, "")},
		"event stream, session": {answers: all("initialize", ok(initialized), event), otherwise: status(404, "")},
		"pair": {answers: all("initialize", ok(old), whole), otherwise: status(404, ""),
			streams: make(chan string, 10)},
	}
}

// A call whose response exceeds a limit fails with the name of that limit, on every transport and in both
// eras.
func TestResponseOverALimitEndsItsCall(t *testing.T) {
	for name, result := range excesses() {
		check := func(t *testing.T, how string, c *client.Client, err error) {
			t.Helper()
			must.Do(t, err)
			defer c.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err = c.CallTool(ctx, "a", nil)
			var limit *jsonrpc.LimitError
			must.CheckThat(t, errors.As(err, &limit) && limit.Name == name && errors.Is(err, call.ErrInvalidResponse),
				"%s: %v", how, err)
		}
		t.Run(name, func(t *testing.T) {
			for _, s := range []*script{modernServer(), legacyServer()} {
				synctest.Test(t, func(t *testing.T) {
					s.Answers["tools/call"] = []string{result}
					to, _ := target(s)
					d := patient()
					c, err := d.Dial(t.Context(), to)
					check(t, "stream", c, err)
				})
			}
			for how, m := range answeringCalls(ok(result).body) {
				c, err := m.dial(t, patient())
				check(t, how, c, err)
			}
		})
	}
}

// If a batch exceeds a limit, the calls that wait for its responses fail (2025-03-26, basic, Batching).
func TestBatchOverALimitEndsItsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{Answers: answers("initialize", strings.ReplaceAll(initialized, "2025-06-18", "2025-03-26")),
			Otherwise: methodNotFound}
		s.Answers["tools/call"] = []string{"", "!lines [" +
			strings.Repeat(`{"jsonrpc":"2.0","id":99,"result":{}},`, 100) +
			`{"jsonrpc":"2.0","id":2,` + called + `},{"jsonrpc":"2.0","id":$id,` + called + `}]`}
		to, _ := target(s)
		d := patient()
		d.Revision = mcp.V20250326
		c := must.Get(d.Dial(t.Context(), to))(t)
		var calls sync.WaitGroup
		for range 2 {
			calls.Go(func() {
				begin := time.Now()
				_, err := c.CallTool(t.Context(), "a", nil)
				var limit *jsonrpc.LimitError
				must.CheckThat(t, errors.As(err, &limit) && limit.Name == "MaxBatch" && time.Since(begin) <= 0,
					"after %v: %v", time.Since(begin), err)
			})
			synctest.Wait()
		}
		calls.Wait()
		c.Close()
	})
}

// Messages that the client cannot use do not fill the log, and the log says how many there were.
func TestUnusableMessagesDoNotFillTheLog(t *testing.T) {
	const (
		lines   = 10_000
		request = `{"jsonrpc":"2.0","id":"x","method":"sampling/createMessage","params":{}}`
	)
	for _, flood := range []string{"no message", `{"jsonrpc":"2.0","method":"m","params":[]}`,
		`{"jsonrpc":"2.0","id":"x","result":7}`, `{"jsonrpc":"2.0","id":"x","result":{}}`, request} {
		servers := []*script{modernServer(), legacyServer()}
		if flood == request {
			servers = servers[:1] // in a session, a server may send requests
		}
		for _, s := range servers {
			synctest.Test(t, func(t *testing.T) {
				s.Answers["tools/call"] = []string{"!lines " + strings.Repeat(flood+"\n", lines) +
					`{"jsonrpc":"2.0","id":$id,` + called + `}`}
				to, _ := target(s)
				var log bytes.Buffer
				d := quiet()
				d.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
				c := must.Get(d.Dial(t.Context(), to))(t)
				must.Check(t, must.Err(c.CallTool(t.Context(), "a", nil)), flood)
				c.Close()
				written := strings.Count(log.String(), "\n")
				must.CheckThat(t, written <= 100, "%s: the log has %d lines", flood, written)
				if omitted := fmt.Sprintf("not_logged=%d", lines-(written-1)); written > 0 &&
					!strings.Contains(log.String(), omitted) {
					t.Errorf("%s: the log lacks %s: %s", flood, omitted, log.String()[max(0, log.Len()-300):])
				}
			})
		}
	}
}

// A request of the server over a limit is answered, since the server waits for it.
func TestRequestOfTheServerOverALimitIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := legacyServer()
		s.Answers["tools/call"] = []string{`!lines {"jsonrpc":"2.0","id":"s","method":"sampling/createMessage",` +
			`"params":` + strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200) + `}
{"jsonrpc":"2.0","id":$id,` + called + `}`}
		c, rec := dial(t, s)
		must.Check(t, must.Err(c.CallTool(t.Context(), "a", nil)))
		synctest.Wait()
		c.Close()
		if received := rec.methods(); !strings.Contains(received,
			`response {"jsonrpc":"2.0","id":"s","error":{"code":-32700,"message":"invalid message: nested too deeply`) {
			t.Errorf("the server received %s", received)
		}
	})
}

// Responses with status 429 and 503 are overload, with the time of Retry-After in seconds or as a date, at most a day
// (RFC 9110, section 10.2.3). The error of the response stays reachable, and the client adds no other error.
func TestOverloadOverHTTPIsTyped(t *testing.T) {
	const day = 24 * time.Hour
	old := strings.ReplaceAll(initialized, "2025-06-18", "2025-03-26")
	for _, test := range []struct {
		name       string
		status     int
		retryAfter string
		date       string
		members    string // fields of the response; empty: a text
		limit      string
		want       time.Duration
	}{
		{"seconds", 429, "7", "", "", "requests", 7 * time.Second},
		{"unavailable", 503, "7", "", "", "requests", 7 * time.Second},
		{"date", 503, "Fri, 31 Dec 1999 23:59:59 GMT", "Fri, 31 Dec 1999 23:58:59 GMT", "", "requests", time.Minute},
		{"past date", 503, "Fri, 31 Dec 1999 23:57:59 GMT", "Fri, 31 Dec 1999 23:58:59 GMT", "", "requests", 0},
		{"far date", 503, "Fri, 31 Dec 2999 23:59:59 GMT", "", "", "requests", day},
		{"many seconds", 429, "4000000000", "", "", "requests", day},
		{"more seconds than an integer has", 429, "99999999999999999999", "", "", "requests", day},
		{"negative", 429, "-5", "", "", "requests", 0},
		{"no number", 429, "soon", "", "", "requests", 0},
		{"no header", 429, "", "", "", "requests", 0},
		{"JSON-RPC error", 429, "1", "",
			`"error":{"code":-32603,"message":"too many calls: try again in 50ms","data":{"limit":"calls",` +
				`"retryAfterMs":50}}`, "calls", 50 * time.Millisecond},
		{"JSON-RPC error of another server", 429, "3", "", `"error":{"code":-32000,"message":"slow down"}`, "requests",
			3 * time.Second},
	} {
		answer := reply{status: test.status, kind: "text/plain", body: "busy",
			header: http.Header{"Retry-After": {test.retryAfter}}}
		if test.members != "" {
			answer = failing(test.status, test.members)
			answer.header = http.Header{"Retry-After": {test.retryAfter}}
		}
		if test.date != "" {
			answer.header["Date"] = []string{test.date}
		}
		for era, m := range map[string]*mock{
			"2026-07-28": {answers: map[string][]reply{"server/discover": {ok(discovered)}, "tools/call": {answer}}},
			"session": {answers: map[string][]reply{"initialize": {ok(old)}, "tools/call": {answer}},
				otherwise: status(404, "")},
		} {
			t.Run(test.name+"/"+era, func(t *testing.T) {
				c := must.Get(m.dial(t, quiet()))(t)
				_, err := c.CallTool(t.Context(), "a", nil)
				var overload *call.OverloadError
				if !errors.As(err, &overload) || overload.Limit != test.limit || overload.RetryAfter != test.want {
					t.Errorf("got %v, %+v, want %q after %v", err, overload, test.limit, test.want)
				}
				var response *call.StatusError
				must.CheckThat(t, errors.As(err, &response) && response.Status == test.status,
					"the response is not there: %v", err)
				var reported *jsonrpc.Error
				must.CheckEqual(t, errors.As(err, &reported), (test.members != ""), reported)
			})
		}
	}
}

// Over a stream, an error with retryAfterMs in its data means overload.
func TestOverloadOverAStreamIsTyped(t *testing.T) {
	for _, test := range []struct {
		name, members, limit string
		want                 time.Duration
		overload             bool
	}{
		{"a limit",
			`"error":{"code":-32603,"message":"too many calls: try again in 50ms","data":{"limit":"calls",` +
				`"retryAfterMs":50}}`, "calls", 50 * time.Millisecond, true},
		{"another code and text", `"error":{"code":-32000,"message":"slow down","data":{"retryAfterMs":50.0}}`,
			"requests", 50 * time.Millisecond, true},
		{"a long limit", `"error":{"code":-32603,"message":"busy","data":{"limit":"` + strings.Repeat("x", 1000) +
			`","retryAfterMs":50}}`, "requests", 50 * time.Millisecond, true},
		{"a limit of another type", `"error":{"code":-32603,"message":"busy","data":{"limit":7,"retryAfterMs":50}}`,
			"requests", 50 * time.Millisecond, true},
		{"a long time", `"error":{"code":-32603,"message":"busy","data":{"retryAfterMs":9000000000000000000}}`,
			"requests", 24 * time.Hour, true},
		{"a negative time", `"error":{"code":-32603,"message":"busy","data":{"retryAfterMs":-1}}`, "", 0, false},
		{"another type", `"error":{"code":-32603,"message":"busy","data":{"retryAfterMs":"1"}}`, "", 0, false},
		{"another member", `"error":{"code":-32603,"message":"busy","data":{"RETRYAFTERMS":1}}`, "", 0, false},
		{"no data", `"error":{"code":-32603,"message":"too many calls: try again in 50ms"}`, "", 0, false},
	} {
		for _, s := range []*script{modernServer(), legacyServer()} {
			inBubble(t, test.name, func(t *testing.T) {
				s.Answers["tools/call"] = []string{test.members}
				c, _ := dial(t, s)
				defer c.Close()
				_, err := c.CallTool(t.Context(), "a", nil)
				var overload *call.OverloadError
				must.Equal(t, errors.As(err, &overload), test.overload, err)
				must.CheckThat(t, !test.overload || overload.Limit == test.limit && overload.RetryAfter == test.want,
					"got %+v, want %q after %v", overload, test.limit, test.want)
				var reported *jsonrpc.Error
				must.CheckThat(t, errors.As(err, &reported), "the error of the server is not there: %v", err)
			})
		}
	}
}

// Only 2025-03-26 has batches. In other revisions, a response in an array is invalid, and the call
// fails without waiting for its time-out.
func TestResponseInABatchOfAnotherRevisionEndsItsCall(t *testing.T) {
	const batch = `[{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":$id,` + called + `}]`
	check := func(t *testing.T, c *client.Client, err error) {
		t.Helper()
		must.Do(t, err)
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = c.CallTool(ctx, "a", nil)
		must.CheckThat(t, errors.Is(err, call.ErrInvalidResponse) &&
			strings.Contains(err.Error(), "must be a JSON object"), "%v", err)
	}
	for _, r := range mcp.Revisions() {
		if r == mcp.V20250326 {
			continue
		}
		s := &script{Answers: answers("initialize", strings.ReplaceAll(initialized, "2025-06-18", string(r))),
			Otherwise: methodNotFound}
		if r.Modern() {
			s = modernServer()
		}
		inBubble(t, "stream, "+string(r), func(t *testing.T) {
			s.Answers["tools/call"] = []string{"!lines " + batch}
			to, _ := target(s)
			d := patient()
			c, err := d.Dial(t.Context(), to)
			check(t, c, err)
		})
	}
	for how, m := range answeringCalls(batch) {
		t.Run(how, func(t *testing.T) {
			c, err := m.dial(t, patient())
			check(t, c, err)
		})
	}
}
