//lint:file-ignore SA1019 What is deprecated still has to work.

package mcptest_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// A function of the program's that panics while a server waits for its answer ends the
// call that asked, and nothing else.
func TestAPanicWhileAnsweringEndsTheCallOnly(t *testing.T) {
	var charged, log atomic.Int32
	everywhere(t, asking(&charged), func(t *testing.T, c *client.Client) {
		log.Store(0)
		result, err := c.CallTool(t.Context(), "order", nil)
		if err == nil && !result.IsError {
			t.Errorf("the call ended well: %+v", result)
		}
		if err != nil && strings.Contains(err.Error(), "secret") != c.Revision().Modern() {
			t.Errorf("the call ended with %v", err) // on a session, what is said is the server's
		}
		if log.Load() == 0 {
			t.Error("nothing was logged")
		}
		if text, err := client.CallTool[string](t.Context(), c, "echo", map[string]string{"text": "alive"}); err != nil || text != "alive" {
			t.Errorf("the call after: %q, %v", text, err)
		}
	}, func(d *client.Dialer) {
		d.Logger = slog.New(errorCount{&log})
		d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) { panic("secret") }
		d.Sample = func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) { panic("secret") }
	})
}

// So does middleware that panics, in whichever goroutine it runs; what takes reports of
// progress is none of the call's business.
func TestAPanicInMiddlewareEndsTheRequestOnly(t *testing.T) {
	var log atomic.Int32
	everywhere(t, newServer, func(t *testing.T, c *client.Client) {
		log.Store(0)
		if result, err := c.CallTool(t.Context(), "everything", nil); err == nil || !strings.Contains(err.Error(), "Middleware panicked") {
			t.Errorf("the call ended with %+v, %v", result, err)
		}
		if log.Load() != 1 {
			t.Errorf("%d errors were logged", log.Load())
		}
		reports := 0
		result, err := c.CallTool(t.Context(), "count", counting{To: 3}, client.WithProgress(func(float64, float64, string) {
			reports++
			panic("secret")
		}))
		if err != nil || result.IsError || reports != 3 || log.Load() != 4 {
			t.Errorf("%+v, %v with %d reports and %d errors", result, err, reports, log.Load())
		}
	}, func(d *client.Dialer) {
		d.Logger = slog.New(errorCount{&log})
		d.Middleware = []call.Middleware{func(next call.Handler) call.Handler {
			return func(ctx context.Context, c *call.Call) (any, error) {
				if name, _ := c.Params().Get("name"); string(name) == `"everything"` {
					panic("secret")
				}
				return next(ctx, c)
			}
		}}
	})
}

// A connection is dialled in a goroutine of the client's.
func TestAPanicWhileDiallingEndsTheDialOnly(t *testing.T) {
	d := client.Dialer{Logger: slog.New(slog.DiscardHandler), Middleware: []call.Middleware{func(call.Handler) call.Handler {
		return func(context.Context, *call.Call) (any, error) { panic("secret") }
	}}}
	near, far := transport.Pipe()
	t.Cleanup(func() { far.Close() })
	endpoint := httptest.NewServer(newServer())
	t.Cleanup(endpoint.Close)
	for name, target := range map[string]client.Target{"stream": client.Conn(near), "http": client.URL(endpoint.URL)} {
		t.Run(name, func(t *testing.T) {
			if c, err := d.Dial(t.Context(), target); err == nil || !strings.Contains(err.Error(), "Middleware panicked") {
				t.Errorf("%v, %v", c, err)
			}
		})
	}
}

// errorCount counts errors that are logged.
type errorCount struct{ errors *atomic.Int32 }

func (errorCount) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }
func (c errorCount) Handle(context.Context, slog.Record) error  { c.errors.Add(1); return nil }
func (c errorCount) WithAttrs([]slog.Attr) slog.Handler         { return c }
func (c errorCount) WithGroup(string) slog.Handler              { return c }
