package rpc_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
)

// lines is a stream that records the messages written to it.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(_ context.Context, msg []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(msg))
	return nil
}

// Rule Y4.
func TestLogMessagesAreLimitedPerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out lines
		c := &rpc.Call{LogLevel: mcp.LevelInfo, Stream: &out}
		log := func(n int) {
			t.Helper()
			for i := range n {
				if err := c.Log(t.Context(), mcp.LevelInfo, "", fmt.Append(nil, i)); err != nil {
					t.Fatal(err)
				}
			}
		}
		log(300)
		if len(out.all) != 256 {
			t.Fatalf("%d messages were sent in a second", len(out.all))
		}
		time.Sleep(time.Second)
		log(1)
		if len(out.all) != 258 || !strings.Contains(out.all[256], `"level":"warning"`) || !strings.Contains(out.all[256], `"count":44`) {
			t.Fatalf("after a second: %s", out.all[256:])
		}
		if want := `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":0}}`; out.all[257] != want {
			t.Errorf("%s, want %s", out.all[257], want)
		}
	})
}

func TestDroppedLogMessagesAreReportedBeforeTheResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out lines
		e := rpc.NewEngine(rpc.Handlers{"x/log": func(ctx context.Context, c *rpc.Call) (any, error) {
			for range 257 {
				_ = c.Log(ctx, mcp.LevelAlert, "", []byte("1"))
			}
			return &mcp.EmptyResult{}, nil
		}}, nil)
		c := callOf(1, "x/log", mcp.V20251125)
		c.LogLevel, c.Stream = mcp.LevelAlert, &out
		e.Serve(t.Context(), c)
		if len(out.all) != 257 || !strings.Contains(out.all[256], `"level":"alert"`) || !strings.Contains(out.all[256], `"count":1`) {
			t.Errorf("%d messages, the last %s", len(out.all), out.all[len(out.all)-1])
		}
		if err := c.Log(t.Context(), mcp.LevelAlert, "", []byte("1")); err != call.ErrCallDone {
			t.Errorf("after the call: %v", err)
		}
	})
}

func TestLogMessagesHaveNoLineBreaks(t *testing.T) {
	var out lines
	c := &rpc.Call{LogLevel: mcp.LevelDebug, Stream: &out}
	if err := c.Log(t.Context(), mcp.LevelDebug, "a\nb", []byte("{\n}")); err != nil || strings.ContainsAny(out.all[0], "\r\n") {
		t.Errorf("%q, %v", out.all, err)
	}
}
