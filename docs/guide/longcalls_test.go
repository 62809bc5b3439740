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
			err = server.Detach(ctx) // the client receives the task
			if err != nil && !errors.Is(err, errors.ErrUnsupported) {
				return "", err
			}
			for i := range 300 {
				_ = server.Progress(ctx, float64(i), 300, "deleting")
			}
			return fmt.Sprint(300, " files were deleted."), ctx.Err()
		}, server.AsTask(server.TaskOptions{}), server.Parked())
}

// newMailer returns a server whose tools ask.
func newMailer() *server.Server {
	s := new(server.Server)
	addSend(s, new(upstream))
	addCleanup(s)
	return s
}

// sure answers the questions of a server.
func sure(d *client.Dialer) {
	d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return mcp.AcceptElicit(confirmation{true})
	}
}

func TestLongCallsAsk(t *testing.T) {
	mcptest.Everywhere(t, newMailer, func(t *testing.T, c *client.Client) {
		for tool, want := range map[string]string{"send": "12 letters were sent.", "cleanup": "300 files were deleted."} {
			text, err := client.CallTool[string](t.Context(), c, tool, nil)
			if c.Revision() < mcp.V20250618 { // these revisions have no forms
				if err == nil {
					t.Errorf("%s returns %q without an answer", tool, text)
				}
				continue
			}
			if err != nil || text != want {
				t.Errorf("%s: %q, %v", tool, text, err)
			}
		}
	}, sure)
}

// startTask starts a task. It saves the ID, so that another process can wait for the result.
func startTask(ctx context.Context, c *client.Client, save func(id string)) (*mcp.CallToolResult, error) {
	task, err := c.StartTool(ctx, "cleanup", nil)
	if err != nil {
		return nil, err
	}
	save(task.ID()) // "" if the tool has run already, without a task
	return task.Wait(ctx)
}

// continueTask waits for a task that another process has started.
func continueTask(ctx context.Context, c *client.Client, id string) (*mcp.CallToolResult, error) {
	task, err := c.Task(id)
	if err != nil {
		return nil, err
	}
	return task.Wait(ctx) // task.Cancel(ctx) cancels it
}

func TestTaskIsContinued(t *testing.T) {
	for _, r := range []mcp.Revision{mcp.V20250618, mcp.V20251125, mcp.V20260728} {
		c, id := mcptest.Dial(t, newMailer(), sure, mcptest.WithRevision(r)), ""
		result := must.Get(startTask(t.Context(), c, func(saved string) { id = saved }))(t)
		must.CheckEqual(t, id != "", r >= mcp.V20251125, r)
		if id != "" {
			result = must.Get(continueTask(t.Context(), c, id))(t)
		}
		must.CheckEqual(t, result.Content[0].(*mcp.TextContent).Text, "300 files were deleted.", r)
	}
}
