package client_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// progressReports is a function for WithProgress that records its calls.
type progressReports []string

func (r *progressReports) add(done, total float64, message string) {
	*r = append(*r, fmt.Sprintf("%v/%v %s", done, total, message))
}

// The tasks extension does not allow progress notifications for a task (Task Status Notifications), so its status message
// is the progress. Each message is reported once, and only that of a task that works.
func TestStatusMessagesOfATaskAreItsProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		message := func(status, text string) string { return state(status, `"statusMessage":"`+text+`"`) }
		asks := strings.Replace(needs("q"), `"inputRequests"`, `"statusMessage":"waits","inputRequests"`, 1)
		s := taskServer(state("working", ""), message("working", "mixing"), message("working", "mixing"), asks, message("working", "baking"), state("completed", `"statusMessage":"baked",`+outcome))
		c, _ := dialTask(t, func(d *client.Dialer) {
			d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
			}
		}, s)
		var got progressReports
		if _, err := c.CallTool(t.Context(), "a", nil, client.WithProgress(got.add)); err != nil {
			t.Fatal(err)
		}
		if want := []string{"0/0 mixing", "1/0 baking"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// In 2025-11-25 the token of the call is valid until the task has ended (basic/utilities/progress, Behavior Requirements,
// 3). The notifications replace the status messages, which say less.
func TestTaskOfASessionReportsProgressWithTheTokenOfItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		progress := func(token string, done int) string {
			return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"total":4,"message":"m"}}`+"\n", token, done)
		}
		late := strings.Replace(sessionState("working"), `"status"`, `"statusMessage":"late","status"`, 1)
		s := sessionTasks(mcp.TaskRequired, "!lines "+progress("3", 2)+progress("99", 9)+`{"jsonrpc":"2.0","id":$id,`+late+`}`, sessionState("completed"))
		s.Answers["tools/call"] = []string{"!lines " + `{"jsonrpc":"2.0","id":$id,` + s.Answers["tools/call"][0] + "}\n" + progress("$id", 1)}
		s.Answers["tasks/result"] = []string{"!lines " + progress("3", 3) + `{"jsonrpc":"2.0","id":$id,` + outcome + "}"}
		c, _ := dialTask(t, func(d *client.Dialer) {
			inSession(d)
			d.Middleware = []call.Middleware{func(next call.Handler) call.Handler {
				return func(ctx context.Context, c *call.Call) (any, error) { // sends a copy of the request
					if err := c.SetMeta("com.example/a", 1); err != nil {
						return nil, err
					}
					return next(ctx, c)
				}
			}}
		}, s)
		for range c.Tools(t.Context()) {
		}
		var got progressReports
		if _, err := c.CallTool(t.Context(), "a", nil, client.WithProgress(got.add)); err != nil {
			t.Fatal(err)
		}
		if want := []string{"1/4 m", "2/4 m", "3/4 m"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// Progress arrives while the task works, also after a question, when a client of 2025-11-25 waits for the result.
func TestProgressOfATaskArrivesBeforeItsEnd(t *testing.T) {
	for _, revision := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
		synctest.Test(t, func(t *testing.T) {
			s := &server.Server{Name: "s", Logger: slog.New(slog.DiscardHandler)}
			seen := make(chan struct{})
			server.AddTool(s, mcp.Tool{Name: "bake"}, func(ctx context.Context, _ struct{}) (string, error) {
				if _, err := server.Elicit[struct{ Kind string }](ctx, "which?"); err != nil {
					return "", err
				}
				if err := server.Progress(ctx, 1, 2, "baking"); err != nil {
					return "", err
				}
				<-seen
				return "done", nil
			}, server.AsTask(server.TaskOptions{Support: mcp.TaskRequired}))
			d := quiet()
			d.Revision = revision
			d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				return mcp.AcceptElicit(map[string]any{"Kind": "plum"})
			}
			c, err := d.Dial(t.Context(), inMemory(s))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			text, err := client.CallTool[string](t.Context(), c, "bake", nil, client.WithProgress(func(_, _ float64, message string) {
				if message == "baking" {
					close(seen)
				}
			}))
			if err != nil || text != "done" {
				t.Errorf("%s: %q, %v", revision, text, err)
			}
			if err := s.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
