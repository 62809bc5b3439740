package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/syncbuffer"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// Audit and Logging of 2025-11-25, basic/utilities/tasks: the creation, the end and the retrieval of tasks
// SHOULD be logged, with the authorization context.
func TestChangesOfTasksAreLogged(t *testing.T) {
	for _, who := range []string{"", "ada"} {
		onTaskWires(t, func(t *testing.T, w taskWire) {
			if who != "" && !w.http {
				return
			}
			var log syncbuffer.Buffer
			s := quiet()
			s.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			if who != "" {
				authenticated(s)
			}
			server.AddTool(s, mcp.Tool{Name: "greet"}, func(ctx context.Context, in nameForm) (string, error) {
				_, err := server.Elicit[nameForm](ctx, "canary question")
				return "canary result", errors.Join(err, server.Progress(ctx, 1, 2, "canary progress"))
			}, server.AsTask(server.TaskOptions{}))
			p := w.connect(t, s, strings.Fields(who)...)
			p.answer = func(*jsonrpc.Message) string { return acceptName("canary answer") }
			id := p.created(p.must(mcp.MethodCallTool, p.taskCall("greet", `"name":"canary argument"`))).TaskID
			s1 := p.until(id, mcp.TaskInputRequired)
			for key := range s1.InputRequests {
				p.update(id, fmt.Sprintf(`{%q:%s}`, key, acceptName("canary answer")))
			}
			if !w.revision.Modern() {
				p.must(mcp.MethodTaskResult, taskMembers(id))
			} else {
				p.until(id, mcp.TaskCompleted)
			}

			want := []string{"INFO task created", "DEBUG task requests input", "DEBUG task received input", "INFO task ended", "DEBUG task outcome retrieved"}
			// A client can see a change in the store before the server logs it.
			eventually(t, func() bool { return strings.Count(log.String(), `"msg":"task `) >= len(want) })
			var events []string
			principal := "anonymous"
			if who != "" {
				principal = digest.Of(person(t, who).Key())[:16]
			}
			for line := range strings.Lines(log.String()) {
				var record map[string]any
				if err := json.Unmarshal([]byte(line), &record); err != nil {
					t.Fatal(err)
				}
				text, _ := record["msg"].(string)
				if !strings.HasPrefix(text, "task ") {
					continue
				}
				events = append(events, fmt.Sprint(record["level"], " ", text))
				if record["task"] != digest.Of(id)[:16] || record["principal"] != principal {
					t.Errorf("%s, want the principal %s", line, principal)
				}
			}
			slices.Sort(want)
			slices.Sort(events)
			if !slices.Equal(events, want) || !strings.Contains(log.String(), `"tool":"greet"`) || !strings.Contains(log.String(), `"status":"completed"`) {
				t.Errorf("%q, want %q", events, want)
			}
			if strings.Contains(log.String(), "canary") || strings.Contains(log.String(), id) {
				t.Errorf("secrets in %s", log.String())
			}
		})
	}
}
