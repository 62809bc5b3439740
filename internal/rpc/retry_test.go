package rpc_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// attempt sends a request through retries to somebody who fails in the given ways first.
func attempt(ctx context.Context, r rpc.Retry, method, params string, failures ...error) (attempts int, took time.Duration, err error) {
	begin := time.Now()
	_, err = rpc.NewSending(rpc.RetryRequests(r)).Do(ctx, mcp.V20260728, &rpc.Request{Method: method, Params: []byte(params)},
		func(context.Context, *rpc.Request) (json.RawMessage, error) {
			attempts++
			if attempts <= len(failures) {
				return nil, failures[attempts-1]
			}
			return json.RawMessage(`{}`), nil
		})
	return attempts, time.Since(begin), err
}

func TestWhatIsSafeIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := rpc.ErrConnectionLost
		for method, want := range map[string]int{
			mcp.MethodListTools: 3, mcp.MethodReadResource: 3, mcp.MethodComplete: 3, mcp.MethodPing: 3, mcp.MethodDiscover: 3, mcp.MethodGetPrompt: 3,
			mcp.MethodCallTool: 1, mcp.MethodSubscribe: 1, mcp.MethodInitialize: 1, mcp.MethodListen: 1, "jobs/run": 1,
		} {
			if n, _, err := attempt(t.Context(), rpc.Retry{}, method, `{"name":"x"}`, lost, lost, lost, lost); n != want || !errors.Is(err, lost) {
				t.Errorf("%s: %d attempts, %v, want %d", method, n, err, want)
			}
		}
		trusted := rpc.Retry{Tool: func(name string) bool { return name == "safe" }}
		if n, _, err := attempt(t.Context(), trusted, mcp.MethodCallTool, `{"name":"safe"}`, lost); n != 2 || err != nil {
			t.Errorf("a safe tool: %d attempts, %v", n, err)
		}
		if n, _, _ := attempt(t.Context(), trusted, mcp.MethodCallTool, `{"name":"other"}`, lost); n != 1 {
			t.Errorf("another tool: %d attempts", n)
		}
	})
}

func TestRetriesWaitAsLongAsTheServerAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limited := &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Data: json.RawMessage(`{"retryAfterMs":5000}`)}
		if n, took, err := attempt(t.Context(), rpc.Retry{}, mcp.MethodListTools, "", limited); n != 2 || took != 5*time.Second || err != nil {
			t.Errorf("%d attempts in %v, %v", n, took, err)
		}
		busy := &rpc.StatusError{Status: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {"7"}}}
		if n, took, _ := attempt(t.Context(), rpc.Retry{}, mcp.MethodListTools, "", busy); n != 2 || took != 7*time.Second {
			t.Errorf("%d attempts in %v", n, took)
		}
		if n, _, _ := attempt(t.Context(), rpc.Retry{MaxWait: time.Second}, mcp.MethodListTools, "", busy); n != 1 {
			t.Errorf("%d attempts at a server that wants a longer wait", n)
		}
	})
}

func TestRetriesWaitLongerAndLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := rpc.ErrConnectionLost
		r := rpc.Retry{Attempts: 4, Wait: time.Second, MaxWait: 3 * time.Second}
		n, took, _ := attempt(t.Context(), r, mcp.MethodListTools, "", lost, lost, lost, lost)
		if n != 4 || took < 3*time.Second || took > 6*time.Second { // of 1, 2 and 3 at most
			t.Errorf("%d attempts in %v", n, took)
		}
	})
}

func TestWhatDoesNotPassIsNotRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, err := range []error{
			errors.New("other"), &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams}, &rpc.StatusError{Status: http.StatusForbidden},
			rpc.ErrClosed, rpc.ErrInvalidResponse, context.Canceled,
		} {
			if n, _, got := attempt(t.Context(), rpc.Retry{}, mcp.MethodListTools, "", err); n != 1 || !errors.Is(got, err) {
				t.Errorf("%v: %d attempts, %v", err, n, got)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if n, took, err := attempt(ctx, rpc.Retry{}, mcp.MethodListTools, "", rpc.ErrConnectionLost); n != 1 || took != time.Millisecond || err == nil {
			t.Errorf("%d attempts in %v, %v", n, took, err)
		}
	})
}

// Timing and recovery have one shape for both roles.
func TestTimingSeesWhatRecoveryMakesOfAPanic(t *testing.T) {
	var seen []rpc.Timing
	timing := rpc.TimeCalls(func(_ context.Context, timed rpc.Timing) { seen = append(seen, timed) })
	recovery := rpc.RecoverCalls(slog.New(slog.DiscardHandler))
	odd := func(rpc.Handler) rpc.Handler {
		return func(context.Context, *rpc.Call) rpc.Outcome { panic("odd") }
	}
	send := func(context.Context, *rpc.Request) (json.RawMessage, error) { return json.RawMessage(`{}`), nil }
	request := &rpc.Request{Method: mcp.MethodCallTool, Params: []byte(`{"name":"x"}`)}
	_, err := rpc.NewSending(timing, recovery, odd).Do(t.Context(), mcp.V20260728, request, send)
	var panicked *rpc.PanicError
	if !errors.As(err, &panicked) || panicked.Value != "odd" {
		t.Errorf("error %v", err)
	}
	if _, err := rpc.NewSending(timing).Do(t.Context(), mcp.V20260728, request, send); err != nil {
		t.Error(err)
	}
	out := rpc.NewEngine(nil, slog.New(slog.DiscardHandler), timing, recovery, odd).Serve(t.Context(), &rpc.Call{Method: "x", Params: new(jsonrpc.Members)})
	var reported *jsonrpc.Error
	if !errors.As(out.Err, &reported) || reported.Code != jsonrpc.CodeInternalError || reported.Message != "internal error" {
		t.Errorf("a server's client sees %v", out.Err)
	}
	if len(seen) != 3 || seen[0].Outcome != "internal error" || seen[0].Name != "x" || seen[1].Outcome != "ok" || seen[2].Method != "x" {
		t.Errorf("%+v", seen)
	}
}

// A client that does not give up at once, and says how long it took.
func ExampleRetryRequests() {
	middleware := []rpc.Middleware{ // of a client.Dialer
		rpc.TimeCalls(func(ctx context.Context, t rpc.Timing) {
			slog.InfoContext(ctx, "asked", "method", t.Method, "took", t.Took, "outcome", t.Outcome)
		}),
		rpc.RetryRequests(rpc.Retry{Attempts: 5}),
	}
	_ = middleware
}
