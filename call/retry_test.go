package call_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// attempt makes a request through RetryRequests. The request first fails with the failures
// and then succeeds.
func attempt(ctx context.Context, r call.Retry, method, params string,
	failures ...error) (attempts int, took time.Duration, err error) {
	begin := time.Now()
	handle := call.RetryRequests(r)(func(context.Context, *call.Call) (any, error) {
		attempts++
		if attempts <= len(failures) {
			return nil, failures[attempts-1]
		}
		return &mcp.EmptyResult{}, nil
	})
	_, err = handle(ctx, call.New(call.Description{Method: method, Params: jsonrpc.MembersOf([]byte(params)),
		Added: mcp.Meta{}}))
	return attempts, time.Since(begin), err
}

func TestRetryRequestsRepeatsOnlySafeRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := call.ErrConnectionLost
		for method, want := range map[string]int{
			mcp.MethodListTools: 3, mcp.MethodReadResource: 3, mcp.MethodComplete: 3, mcp.MethodPing: 3,
			mcp.MethodDiscover: 3, mcp.MethodGetPrompt: 3,
			mcp.MethodCallTool: 1, mcp.MethodSubscribe: 1, mcp.MethodInitialize: 1, mcp.MethodListen: 1, "jobs/run": 1,
		} {
			n, _, err := attempt(t.Context(), call.Retry{}, method, `{"name":"x"}`, lost, lost, lost,
				lost)
			must.CheckThat(t, n == want && errors.Is(err, lost), "%s: %d attempts, %v, want %d", method, n, err, want)
		}
		trusted := call.Retry{Tool: func(name string) bool { return name == "safe" }}
		n, _, err := attempt(t.Context(), trusted, mcp.MethodCallTool, `{"name":"safe"}`, lost)
		must.CheckThat(t, n == 2 && err == nil, "a tool that may be repeated: %d attempts, %v", n, err)
		n, _, _ = attempt(t.Context(), trusted, mcp.MethodCallTool, `{"name":"other"}`, lost)
		must.CheckThat(t, n == 1, "another tool: %d attempts", n)
	})
}

func TestRetryRequestsWaitsAsLongAsTheServerAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limited := &call.OverloadError{Limit: "calls", RetryAfter: 5 * time.Second}
		n, took, err := attempt(t.Context(), call.Retry{}, mcp.MethodListTools, "", limited)
		must.CheckThat(t, n == 2 && took == 5*time.Second && err == nil, "%d attempts in %v, %v", n, took, err)
		busy := &call.StatusError{Status: 502, RetryAfter: 7 * time.Second}
		n, took, _ = attempt(t.Context(), call.Retry{}, mcp.MethodListTools, "", busy)
		must.CheckThat(t, n == 2 && took == 7*time.Second, "%d attempts in %v", n, took)
		busy.RetryAfter = 11 * time.Second
		n, _, _ = attempt(t.Context(), call.Retry{}, mcp.MethodListTools, "", busy)
		must.CheckThat(t, n == 1, "%d attempts although the server asks for more than 10 seconds", n)
	})
}

func TestRetryRequestsDoublesItsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := call.ErrConnectionLost
		r := call.Retry{Attempts: 4, Wait: 6 * time.Second}
		n, took, _ := attempt(t.Context(), r, mcp.MethodListTools, "", lost, lost, lost, lost)
		if n != 4 || took < 13*time.Second || took > 26*time.Second { // waits of at most 6, 10 and 10 seconds
			t.Errorf("%d attempts in %v", n, took)
		}
	})
}

func TestRetryRequestsReturnsPermanentErrorsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, err := range []error{
			errors.New("other"), &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams}, &call.StatusError{Status: 403},
			call.ErrClosed, call.ErrInvalidResponse, context.Canceled,
		} {
			n, _, got := attempt(t.Context(), call.Retry{}, mcp.MethodListTools, "", err)
			must.CheckThat(t, n == 1 && errors.Is(got, err), "%v: %d attempts, %v", err, n, got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		n, took, err := attempt(ctx, call.Retry{}, mcp.MethodListTools, "", call.ErrConnectionLost)
		must.CheckThat(t, n == 1 && took == time.Millisecond && err != nil, "%d attempts in %v, %v", n, took, err)
	})
}

func TestRetryRequestsDoesNothingOnAServer(t *testing.T) {
	attempts := 0
	handle := call.RetryRequests(call.Retry{})(func(context.Context, *call.Call) (any, error) {
		attempts++
		return nil, call.ErrConnectionLost
	})
	_, err := handle(t.Context(), call.New(call.Description{Method: mcp.MethodListTools}))
	must.CheckThat(t, err != nil && attempts == 1, "%d attempts, %v", attempts, err)
}

// This client repeats requests and logs how long they took.
func ExampleRetryRequests() {
	middleware := []call.Middleware{ // middleware of a client.Dialer
		call.LogCalls(slog.Default()),
		call.RetryRequests(call.Retry{Attempts: 5}),
	}
	_ = middleware
}
