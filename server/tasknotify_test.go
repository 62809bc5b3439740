package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// withTasks is the _meta of a client of 2026-07-28 that declares the tasks extension.
const withTasks = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`

// newTaskServer returns a server with the tool "job", which reports progress, asks for a name and
// waits until release is closed.
func newTaskServer(release chan struct{}) *server.Server {
	s := &server.Server{}
	server.AddTool(s, mcp.Tool{Name: "job"}, func(ctx context.Context, _ struct{}) (string, error) {
		time.Sleep(time.Second) // the client has the id of the task
		if err := server.Progress(ctx, 1, 2, "half"); err != nil {
			return "", err
		}
		answer, err := server.Elicit[struct{ Name string }](ctx, "name?")
		if err != nil {
			return "", err
		}
		select {
		case <-release:
			return "Hello, " + answer.Name, nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}, server.AsTask(server.TaskOptions{}))
	return s
}

// member returns the first string with a name in a message.
func member(t testing.TB, message, name string) string {
	t.Helper()
	found := regexp.MustCompile(`"` + name + `":"([^"]*)"`).FindStringSubmatch(message)
	must.That(t, found != nil, "no %s in %s", name, message)
	return found[1]
}

func inputKey(t testing.TB, message string) string {
	t.Helper()
	found := regexp.MustCompile(`"inputRequests":\{"([^"]*)"`).FindStringSubmatch(message)
	must.That(t, found != nil, "no input requests in %s", message)
	return found[1]
}

// Tasks extension, Task Status Notifications: the acknowledgement lists the tasks of the caller, and
// each notification is what tasks/get would have returned. No progress is sent on the stream.
func TestChangesOfTasksAreNotifiedToSubscribers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := newTaskServer(release)
		defer s.Shutdown(t.Context())
		w := connect(t, s)
		w.Send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job","arguments":{},` + withTasks +
			`}}`)
		id := member(t, w.Receive(), "taskId")
		time.Sleep(2 * time.Second)
		w.Send(`{"jsonrpc":"2.0","id":2,"method":"subscriptions/listen",` +
			`"params":{"notifications":{"taskIds":["unknown","` + id + `"]},` + withTasks + `}}`)
		w.Expect(acknowledged(`2`, `{"taskIds":["`+id+`"]}`))
		next := func(id, status string) string {
			t.Helper()
			got := w.Receive()
			if !strings.HasPrefix(got,
				`{"jsonrpc":"2.0","method":"notifications/tasks",`+
					`"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":2},"taskId":"`+id+`","status":"`+
					status+`"`) {
				t.Fatalf("want %s, got %s", status, got)
			}
			w.Send(`{"jsonrpc":"2.0","id":3,"method":"tasks/get","params":{"taskId":"` + id + `",` + withTasks + `}}`)
			_, state, _ := strings.Cut(got, `"taskId"`)
			answer := w.Receive()
			must.CheckThat(t, strings.HasSuffix(answer, `"taskId"`+state), "notified %s\nanswered %s", got, answer)
			return got
		}
		key := inputKey(t, next(id, "input_required"))
		w.Send(`{"jsonrpc":"2.0","id":4,"method":"tasks/update","params":{"taskId":"` + id + `","inputResponses":{"` +
			key + `":{"action":"accept","content":{"Name":"Ada"}}},` + withTasks + `}}`)
		answers := w.Receive() + w.Receive() // in any order
		must.CheckContains(t, answers, `"id":4,"result":{"resultType":"complete"`)
		must.CheckContains(t, answers, `"status":"working"`)
		close(release)
		got := next(id, "completed")
		must.CheckThat(t, strings.HasSuffix(got,
			`"result":{"resultType":"complete","content":[{"type":"text","text":"Hello, Ada"}]}}}`), "%v", got)
		w.Send(cancelled(`2`))
	})
}

// 2025-11-25, basic/utilities/tasks: status notifications have no related task; progress and input
// requests do.
func TestSessionsAreNotifiedOfTheirTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := newTaskServer(release)
		defer s.Shutdown(t.Context())
		w := connect(t, s)
		w.Send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
			`"clientInfo":{"name":"c","version":"1"},"capabilities":{"elicitation":{}}}}`)
		must.CheckContains(t, w.Receive(), `"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`)
		w.Send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		w.Send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job","arguments":{},` +
			`"task":{"ttl":60000},"_meta":{"progressToken":"p"}}}`)
		answer := w.Receive()
		id := member(t, answer, "taskId")
		must.CheckThat(t, strings.Contains(answer,
			`"result":{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"`+id+`"}},"task":{"taskId"`) &&
			strings.Contains(answer, `"ttl":60000`), "%v", answer)
		related := `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"` + id + `"}}`
		w.Expect(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1,` +
			`"total":2,"message":"half",` + related + `}}`)
		// Several changes in a short time may be one notification.
		until := func(status string) {
			t.Helper()
			for last := ""; last != status; {
				got := w.Receive()
				must.That(t, strings.Contains(got, `"method":"notifications/tasks/status"`) &&
					!strings.Contains(got, "related-task"), "%v", got)
				next := member(t, got, "status") + member(t, got, "statusMessage")
				must.CheckThat(t, next != last, "notified twice: %s", got)
				last = next
			}
		}
		until("input_requiredhalf")
		w.Send(`{"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":"` + id + `"}}`)
		question := w.Receive()
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Meta map[string]json.RawMessage `json:"_meta"`
			}
		}
		err := json.Unmarshal([]byte(question), &m)
		must.That(t, err == nil && m.Method == "elicitation/create" &&
			string(m.Params.Meta["io.modelcontextprotocol/related-task"]) == `{"taskId":"`+id+`"}`, "%v", question)
		w.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"Name":"Ada"}}}`, m.ID))
		until("workinghalf")
		close(release)
		result, status := w.Receive(), w.Receive() // in any order
		if strings.Contains(status, `"id":2`) {
			result, status = status, result
		}
		if result != `{"jsonrpc":"2.0","id":2,"result":{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"`+id+
			`"}},"content":[{"type":"text","text":"Hello, Ada"}]}}` ||
			!strings.Contains(status, `"status":"completed"`) {
			t.Errorf("%s\n%s", result, status)
		}
	})
}
