//lint:file-ignore SA1019 deprecated features must still work

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

// A panic in the client's Elicit or Sample function ends only the call that requested
// the input.
func TestPanicInInputHandlerEndsOnlyTheCall(t *testing.T) {
	var charged, log atomic.Int32
	everywhere(t, asking(&charged), func(t *testing.T, c *client.Client) {
		log.Store(0)
		result, err := c.CallTool(t.Context(), "order", nil)
		if err == nil && !result.IsError {
			t.Errorf("the call succeeds: %+v", result)
		}
		if err != nil && strings.Contains(err.Error(), "secret") != c.Revision().Modern() {
			t.Errorf("the call returns %v", err) // in a session the error is the server's
		}
		if log.Load() == 0 {
			t.Error("the panic is not logged")
		}
		if text, err := client.CallTool[string](t.Context(), c, "echo", map[string]string{"text": "alive"}); err != nil || text != "alive" {
			t.Errorf("the next call: %q, %v", text, err)
		}
	}, func(d *client.Dialer) {
		d.Logger = slog.New(errorCount{&log})
		d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) { panic("secret") }
		d.Sample = func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) { panic("secret") }
	})
}

// A panic in a progress function does not even affect its call.
func TestPanicInMiddlewareEndsOnlyTheRequest(t *testing.T) {
	var log atomic.Int32
	everywhere(t, newServer, func(t *testing.T, c *client.Client) {
		log.Store(0)
		if result, err := c.CallTool(t.Context(), "everything", nil); err == nil || !strings.Contains(err.Error(), "Middleware panicked") {
			t.Errorf("the call returns %+v, %v", result, err)
		}
		if log.Load() != 1 {
			t.Errorf("%d errors were logged", log.Load())
		}
		reports := 0
		result, err := c.CallTool(t.Context(), "count", countParams{To: 3}, client.WithProgress(func(float64, float64, string) {
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

// Dial sends its requests in another goroutine.
func TestPanicInMiddlewareDuringDialIsAnError(t *testing.T) {
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

// errorCount is a slog.Handler that counts errors.
type errorCount struct{ errors *atomic.Int32 }

func (errorCount) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }
func (c errorCount) Handle(context.Context, slog.Record) error  { c.errors.Add(1); return nil }
func (c errorCount) WithAttrs([]slog.Attr) slog.Handler         { return c }
func (c errorCount) WithGroup(string) slog.Handler              { return c }
