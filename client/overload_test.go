package client_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/jsonrpc"
)

// Responses with status 429 and 503 are overload, with the time of Retry-After in seconds or as a
// date, at most a day (RFC 9110, section 10.2.3). The error of the response stays reachable, and
// the client adds no other error.
func TestOverloadOverHTTPIsTyped(t *testing.T) {
	const day = 24 * time.Hour
	old := strings.ReplaceAll(initialized, "2025-06-18", "2025-03-26")
	for _, test := range []struct {
		name       string
		status     int
		retryAfter string
		date       string
		members    string // of the response; empty for a text
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
		{"JSON-RPC error", 429, "1", "", `"error":{"code":-32603,"message":"too many calls: try again in 50ms","data":{"limit":"calls","retryAfterMs":50}}`, "calls", 50 * time.Millisecond},
		{"JSON-RPC error of another server", 429, "3", "", `"error":{"code":-32000,"message":"slow down"}`, "requests", 3 * time.Second},
	} {
		answer := reply{status: test.status, kind: "text/plain", body: "busy", header: http.Header{"Retry-After": {test.retryAfter}}}
		if test.members != "" {
			answer = failing(test.status, test.members)
			answer.header = http.Header{"Retry-After": {test.retryAfter}}
		}
		if test.date != "" {
			answer.header["Date"] = []string{test.date}
		}
		for era, m := range map[string]*mock{
			"2026-07-28": {answers: map[string][]reply{"server/discover": {ok(discovered)}, "tools/call": {answer}}},
			"session":    {answers: map[string][]reply{"initialize": {ok(old)}, "tools/call": {answer}}, otherwise: status(404, "")},
		} {
			t.Run(test.name+"/"+era, func(t *testing.T) {
				c, err := m.dial(t, quiet())
				if err != nil {
					t.Fatal(err)
				}
				_, err = c.CallTool(t.Context(), "a", nil)
				var overload *call.OverloadError
				if !errors.As(err, &overload) || overload.Limit != test.limit || overload.RetryAfter != test.want {
					t.Errorf("got %v, %+v, want %q after %v", err, overload, test.limit, test.want)
				}
				var response *call.StatusError
				if !errors.As(err, &response) || response.Status != test.status {
					t.Errorf("the response is not there: %v", err)
				}
				var reported *jsonrpc.Error
				if errors.As(err, &reported) != (test.members != "") {
					t.Errorf("the JSON-RPC error is %+v", reported)
				}
			})
		}
	}
}

// Over a stream, retryAfterMs in the data of an error means overload.
func TestOverloadOverAStreamIsTyped(t *testing.T) {
	for _, test := range []struct {
		name, members, limit string
		want                 time.Duration
		overload             bool
	}{
		{"a limit", `"error":{"code":-32603,"message":"too many calls: try again in 50ms","data":{"limit":"calls","retryAfterMs":50}}`, "calls", 50 * time.Millisecond, true},
		{"another code and text", `"error":{"code":-32000,"message":"slow down","data":{"retryAfterMs":50.0}}`, "requests", 50 * time.Millisecond, true},
		{"a long limit", `"error":{"code":-32603,"message":"busy","data":{"limit":"` + strings.Repeat("x", 1000) + `","retryAfterMs":50}}`, "requests", 50 * time.Millisecond, true},
		{"a limit of another type", `"error":{"code":-32603,"message":"busy","data":{"limit":7,"retryAfterMs":50}}`, "requests", 50 * time.Millisecond, true},
		{"a long time", `"error":{"code":-32603,"message":"busy","data":{"retryAfterMs":9000000000000000000}}`, "requests", 24 * time.Hour, true},
		{"a negative time", `"error":{"code":-32603,"message":"busy","data":{"retryAfterMs":-1}}`, "", 0, false},
		{"another type", `"error":{"code":-32603,"message":"busy","data":{"retryAfterMs":"1"}}`, "", 0, false},
		{"another member", `"error":{"code":-32603,"message":"busy","data":{"RETRYAFTERMS":1}}`, "", 0, false},
		{"no data", `"error":{"code":-32603,"message":"too many calls: try again in 50ms"}`, "", 0, false},
	} {
		for _, s := range []*script{modernServer(), legacyServer()} {
			t.Run(test.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s.Answers["tools/call"] = []string{test.members}
					c, _ := dial(t, s)
					defer c.Close()
					_, err := c.CallTool(t.Context(), "a", nil)
					var overload *call.OverloadError
					if errors.As(err, &overload) != test.overload {
						t.Fatalf("got %v, want overload: %v", err, test.overload)
					}
					if test.overload && (overload.Limit != test.limit || overload.RetryAfter != test.want) {
						t.Errorf("got %+v, want %q after %v", overload, test.limit, test.want)
					}
					var reported *jsonrpc.Error
					if !errors.As(err, &reported) {
						t.Errorf("the error of the server is not there: %v", err)
					}
				})
			})
		}
	}
}
