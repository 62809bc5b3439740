package mcptest_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// A handler can ask before and after its call becomes a task, and runs once.
func TestParkedCallBecomesATask(t *testing.T) {
	type form struct{ Text string }
	for _, before := range []int{0, 1, 2} {
		for _, tasks := range []bool{true, false} {
			var runs atomic.Int32
			s := &server.Server{Name: "s"}
			server.AddTool(s, mcp.Tool{Name: "job"}, func(ctx context.Context, _ struct{}) (text string, err error) {
				runs.Add(1)
				for i := range before + 1 {
					if i == before {
						if ctx, err = server.Detach(ctx); err != nil && tasks {
							return "", err
						}
					}
					answer, err := server.Elicit[form](ctx, fmt.Sprint("question ", i))
					if err != nil {
						return "", err
					}
					text += answer.Text + ";"
				}
				return text, nil
			}, server.Parked(), server.AsTask(server.TaskOptions{AtDetach: true, PollInterval: 100 * time.Millisecond}))
			c := mcptest.DialHTTP(t, s, mcptest.WithRevision(mcp.V20260728), func(d *client.Dialer) {
				d.NoTasks = !tasks
				d.Elicit = func(_ context.Context, request *mcp.ElicitParams) (*mcp.ElicitResult, error) {
					return mcp.AcceptElicit(form{request.Message})
				}
			})
			task, err := c.StartTool(t.Context(), "job", nil)
			if err != nil {
				t.Fatal(err)
			}
			want := ""
			for i := range before + 1 {
				want += fmt.Sprint("question ", i, ";")
			}
			result, err := task.Wait(t.Context())
			if err != nil || result.Content[0].(*mcp.TextContent).Text != want || runs.Load() != 1 || (task.ID() != "") != tasks {
				t.Errorf("%d questions before, tasks %t: %+v, %v after %d runs, task %q", before, tasks, result, err, runs.Load(), task.ID())
			}
		}
	}
}
