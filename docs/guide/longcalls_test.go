package guide_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

type confirmation struct {
	Sure bool `json:"sure" title:"Are you sure?"`
}

// upstream is a connection to another system, which cannot be opened again for the same work.
type upstream struct{ opened int }

func (u *upstream) open()       { u.opened++ }
func (u *upstream) send() error { return nil }
func (u *upstream) close()      {}

func addSend(s *server.Server, u *upstream) {
	server.AddTool(s, mcp.Tool{Name: "send", Description: "Send the batch"},
		func(ctx context.Context, _ struct{}) (string, error) {
			u.open()
			defer u.close()
			answer, err := server.Elicit[confirmation](ctx, "Send 12 letters?") // waits here in every revision
			if err != nil || !answer.Sure {
				return "Nothing was sent.", err
			}
			return "12 letters were sent.", u.send()
		}, server.Parked())
}

func addCleanup(s *server.Server) {
	server.AddTool(s, mcp.Tool{Name: "cleanup", Description: "Delete old files"},
		func(ctx context.Context, _ struct{}) (string, error) {
			answer, err := server.Elicit[confirmation](ctx, "Delete 300 files?") // a question of the call
			if err != nil || !answer.Sure {
				return "Nothing was deleted.", err
			}
			ctx, err = server.Detach(ctx) // the client receives the task
			if err != nil && !errors.Is(err, errors.ErrUnsupported) {
				return "", err
			}
			for i := range 300 {
				_ = server.Progress(ctx, float64(i), 300, "deleting")
			}
			return fmt.Sprint(300, " files were deleted."), ctx.Err()
		}, server.AsTask(server.TaskOptions{AtDetach: true}))
}

func TestLongCallsAsk(t *testing.T) {
	sure := func(d *client.Dialer) {
		d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return mcp.AcceptElicit(confirmation{true})
		}
	}
	s, u := new(server.Server), new(upstream)
	addSend(s, u)
	addCleanup(s)
	c := mcptest.Dial(t, s, sure)
	must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, "send", nil))(t), "12 letters were sent.")
	must.CheckEqual(t, u.opened, 1)
	must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, "cleanup", nil))(t), "300 files were deleted.")
}
