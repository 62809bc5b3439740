//lint:file-ignore SA1019 deprecated features must still work

package mcptest_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// A function of a client that calls runtime.Goexit does not answer. The server gets an error, and
// the connection serves the next call.
func TestGoexitInAFunctionOfTheClientIsAnError(t *testing.T) {
	inquisitive := func() *server.Server {
		s := newServer()
		server.AddTool(s, mcp.Tool{Name: "elicit"}, func(ctx context.Context, _ struct{}) (string, error) {
			_, err := server.Elicit[struct {
				A string `json:"a"`
			}](ctx, "a?")
			return "elicited", err
		})
		server.AddTool(s, mcp.Tool{Name: "sample"}, func(ctx context.Context, _ struct{}) (string, error) {
			_, err := server.Sample(ctx, mcp.CreateMessageParams{MaxTokens: 1})
			return "sampled", err
		})
		server.AddTool(s, mcp.Tool{Name: "roots"}, func(ctx context.Context, _ struct{}) (string, error) {
			_, err := server.Roots(ctx)
			return "rooted", err
		})
		server.AddTool(s, mcp.Tool{Name: "log"}, func(ctx context.Context, _ struct{}) (string, error) {
			server.Logger(ctx).Error("logged")
			return "logged", nil
		})
		return s
	}
	everywhere(t, inquisitive, func(t *testing.T, c *client.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		for _, tool := range []string{"elicit", "sample", "roots"} {
			if tool == "elicit" && c.Revision() < mcp.V20250618 {
				continue
			}
			result, err := c.CallTool(ctx, tool, nil)
			if ctx.Err() != nil || err == nil && !result.IsError || errors.Is(err, call.ErrConnectionLost) {
				t.Fatalf("%s: %+v, %v, want an error of the client", tool, result, err)
			}
		}
		if result, err := c.CallTool(ctx, "log", nil); err != nil || result.IsError {
			t.Errorf("log: %+v, %v", result, err)
		}
		if _, err := c.CallTool(ctx, "everything", nil); err != nil {
			t.Errorf("the next call: %v", err)
		}
	}, func(d *client.Dialer) {
		d.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
		d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) { runtime.Goexit(); return nil, nil }
		d.Sample = func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
			runtime.Goexit()
			return nil, nil
		}
		d.Roots = func(context.Context) ([]mcp.Root, error) { runtime.Goexit(); return nil, nil }
		d.OnLog = func(context.Context, mcp.LoggingMessageParams) { runtime.Goexit() }
	})

}
