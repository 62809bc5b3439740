//go:build integration

package interop

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
)

// The programs of the pages about migration give the same responses before and after it, except in what the pages name
// as different.
func TestMovedServersDoTheSame(t *testing.T) {
	const key = "4c6f7665"
	t.Setenv("TICKETS_KEY", key)
	for name, program := range map[string]string{
		"parley": buildProgram(t, "../examples/tickets", ""),
		"gosdk":  buildProgram(t, "./tickets-gosdk", "gopeers"),
		"mcpgo":  buildProgram(t, "./tickets-mcpgo", "gopeers"),
	} {
		for _, revision := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
			t.Run(name+"/"+string(revision), func(t *testing.T) {
				args := []string{"-http", "127.0.0.1:0"}
				if name == "gosdk" && revision.Modern() {
					args = append(args, "-stateless")
				}
				url := serveTickets(t, program, args)
				var rejected *call.StatusError
				_, err := client.Dial(t.Context(), client.URL(url))
				must.CheckThat(t, errors.As(err, &rejected) && rejected.Status == http.StatusUnauthorized,
					"without a key: %v", err)
				useTickets(t, revision, &client.HTTPTarget{URL: url,
					Header: http.Header{"Authorization": {"Bearer " + key}}})
			})
		}
	}
}

func useTickets(t *testing.T, revision mcp.Revision, target client.Target) {
	ctx := t.Context()
	c := dial(t, &client.Dialer{Revision: revision, Elicit: func(_ context.Context, form *mcp.ElicitParams) (
		*mcp.ElicitResult, error,
	) {
		if form.Message != "Why is ticket 3 closed?" {
			return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
		}
		return mcp.AcceptElicit(map[string]string{"reason": "done"})
	}}, target)

	type found struct {
		Tickets []map[string]string `json:"tickets"`
	}
	got, err := client.CallTool[found](ctx, c, "find", map[string]any{"word": "printer", "max": 1})
	must.CheckThat(t, err == nil && len(got.Tickets) == 1 && got.Tickets[0]["title"] == "The printer is on fire",
		"find: %+v, %v", got, err)
	if got, err := client.CallTool[found](ctx, c, "find", map[string]any{"word": "tea"}); err != nil ||
		got.Tickets == nil || len(got.Tickets) > 0 {
		t.Errorf("find nothing: %+v, %v", got, err)
	}
	var failed *client.ToolError
	if _, err := client.CallTool[found](ctx, c, "find", nil); !errors.As(err, &failed) {
		t.Errorf("find without a word: %v, want a tool error", err)
	}
	if text, err := client.CallTool[string](ctx, c, "close", map[string]string{"id": "3"}); err != nil ||
		text != "Ticket 3 is closed: done" {
		t.Errorf("close: %q, %v", text, err)
	}
	if _, err := client.CallTool[string](ctx, c, "close", map[string]string{"id": "2"}); !errors.As(err, &failed) {
		t.Errorf("close without a reason: %v, want a tool error", err)
	}
	contents, err := c.ReadResource(ctx, "ticket://3")
	must.CheckThat(t, err == nil && contents.Contents[0].Text == `{"id":"3","title":"No coffee"}` &&
		contents.Contents[0].MimeType == "application/json", "read: %+v, %v", contents, err)
	if contents, err := c.ReadResource(ctx, "ticket://4"); err == nil {
		t.Errorf("read a missing ticket: %+v", contents)
	}
	prompt, err := c.GetPrompt(ctx, "triage", map[string]string{"id": "3"})
	if err != nil || textOf([]mcp.Content{prompt.Messages[0].Content}) != "Assess how urgent ticket 3 is." {
		t.Errorf("prompt: %+v, %v", prompt, err)
	}
	completion, err := c.Complete(ctx, mcp.CompleteParams{Ref: mcp.CompleteReference{Type: mcp.RefResource,
		URI: "ticket://{id}"}, Argument: mcp.CompleteArgument{Name: "id", Value: "2"}})
	must.CheckThat(t, err == nil && strings.Join(completion.Values, " ") == "2", "complete: %+v, %v", completion, err)
}

// serveTickets runs a program over HTTP until the end of the test, and returns the URL that it prints.
func serveTickets(t *testing.T, program string, args []string) (url string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	stderr, err := cmd.StderrPipe()
	must.Do(t, err)
	must.Do(t, cmd.Start())
	lines := bufio.NewReader(stderr)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_, _ = lines.WriteTo(t.Output())
		_ = cmd.Wait()
	})
	line, err := lines.ReadString('\n')
	at := strings.Index(line, "http://")
	must.That(t, err == nil && at >= 0, "%s printed %q, %v", program, line, err)
	return strings.TrimRight(strings.Fields(line[at:])[0], ";")
}
