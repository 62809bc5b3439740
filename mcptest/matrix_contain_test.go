//lint:file-ignore SA1019 What is deprecated still has to work.

package mcptest_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
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
		if text, err := client.Call[string](t.Context(), c, "echo", map[string]string{"text": "alive"}); err != nil || text != "alive" {
			t.Errorf("the call after: %q, %v", text, err)
		}
	}, func(d *client.Dialer) {
		d.Logger = slog.New(errorCount{&log})
		d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) { panic("secret") }
		d.Sample = func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) { panic("secret") }
	})
}

// errorCount counts errors that are logged.
type errorCount struct{ errors *atomic.Int32 }

func (errorCount) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }
func (c errorCount) Handle(context.Context, slog.Record) error  { c.errors.Add(1); return nil }
func (c errorCount) WithAttrs([]slog.Attr) slog.Handler         { return c }
func (c errorCount) WithGroup(string) slog.Handler              { return c }
