package client_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/client"
)

// Servers may report the changes of tasks (tasks extension, Task Status Notifications).

// taskReports is an answer to subscriptions/listen: an acknowledgement with these members and
// notifications about the task, but no response.
func taskReports(accepted string, changes int) string {
	lines := []string{`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":$id},"notifications":{` + accepted + `}}}`}
	for range changes {
		lines = append(lines, `{"jsonrpc":"2.0","method":"notifications/tasks","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":$id},`+working+`,`+taskTimes+`}}`)
	}
	return "!lines " + strings.Join(lines, "\n")
}

const seldom = `,"pollIntervalMs":60000`

// seldomPolled returns a server that recommends a poll each minute.
func seldomPolled(listen string, states ...string) *script {
	s := taskServer(states...)
	s.Answers["tools/call"] = []string{created(working + seldom)}
	s.Answers["subscriptions/listen"] = []string{listen}
	return s
}

func TestClientPollsWhenServerReportsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, out := dialTask(t, nil, seldomPolled(taskReports(`"taskIds":["t"]`, 1), state("completed", outcome)))
		start := time.Now()
		if text, err := client.CallTool[string](t.Context(), c, "a", nil); err != nil || text != "called" || time.Since(start) != 0 {
			t.Errorf("%q, %v after %v", text, err, time.Since(start))
		}
		if got := out.of("subscriptions/listen"); !slices.Equal(got, []string{`{"notifications":{"taskIds":["t"]}}`}) {
			t.Errorf("subscriptions/listen %q", got)
		}
	})
}

// Notifications cannot make the client poll more often than ten times a second.
func TestReportedChangesDoNotFloodTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		change := `{"jsonrpc":"2.0","method":"notifications/tasks","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":3},` + working + `,` + taskTimes + `}}`
		again := "!lines " + `{"jsonrpc":"2.0","id":$id,` + state("working", strings.TrimPrefix(seldom, ",")) + "}\n" + change
		c, out := dialTask(t, nil, seldomPolled(taskReports(`"taskIds":["t"]`, 1), append(slices.Repeat([]string{again}, 20), state("completed", outcome))...))
		start := time.Now()
		if _, err := c.CallTool(t.Context(), "a", nil); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < 2*time.Second || took > 3*time.Second {
			t.Errorf("%d polls in %v", len(out.of("tasks/get")), took)
		}
	})
}

// Polling works without notifications: the server may not report changes, or the subscription may
// end.
func TestPollingDoesNotNeedNotifications(t *testing.T) {
	for name, tc := range map[string]struct {
		listen  string
		listens int // subscriptions during two calls with three polls each
	}{
		"not supported":        {methodNotFound, 1},
		"not acknowledged":     {taskReports(``, 0), 1},
		"another task":         {taskReports(`"taskIds":["u"]`, 0), 1},
		"malformed":            {taskReports(`"taskIds":7`, 0), 1},
		"no response":          {``, 2},
		"ends after each poll": {ack, 6},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				again := state("working", strings.TrimPrefix(seldom, ","))
				last := state("completed", outcome)
				c, out := dialTask(t, nil, seldomPolled(tc.listen, again, again, last, again, again, last))
				for range 2 {
					start := time.Now()
					if _, err := c.CallTool(t.Context(), "a", nil); err != nil {
						t.Fatal(err)
					}
					if took := time.Since(start); took < 3*time.Minute || took > 199*time.Second {
						t.Errorf("three polls took %v", took)
					}
				}
				if got := out.of("subscriptions/listen"); len(got) != tc.listens {
					t.Errorf("%d subscriptions, want %d", len(got), tc.listens)
				}
			})
		})
	}
}

// A server that ends each subscription at once does not get one after each poll.
func TestSubscriptionThatDoesNotLastIsNotRepeatedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		states := append(slices.Repeat([]string{state("working", "")}, 8), state("completed", outcome))
		s := taskServer(states...)
		s.Answers["subscriptions/listen"] = []string{ack}
		c, out := dialTask(t, nil, s)
		if _, err := c.CallTool(t.Context(), "a", nil); err != nil {
			t.Fatal(err)
		}
		if got := out.of("subscriptions/listen"); len(got) != 1 {
			t.Errorf("%d subscriptions in 9 s", len(got))
		}
	})
}

// The subscription ends when the wait does, also when the client is closed.
func TestSubscriptionEndsWithTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := dialTask(t, nil, seldomPolled(``, state("working", "")))
		ended := make(chan error, 1)
		go func() {
			_, err := c.CallTool(t.Context(), "a", nil)
			ended <- err
		}()
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, client.ErrClientClosed) {
			t.Errorf("%v, want ErrClientClosed", err)
		}
	})
}

// In 2025-11-25 a server may report a change before it sends the response that creates the task, or before the client
// waits for the task. The client polls at once.
func TestChangeThatIsReportedBeforeTheWaitIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const task = `"taskId":"t","status":"%s","createdAt":"2025-11-25T10:00:00Z","lastUpdatedAt":"2025-11-25T10:00:00Z","ttl":null,"pollInterval":60000`
		working, completed := fmt.Sprintf(task, "working"), fmt.Sprintf(task, "completed")
		s := legacyServer()
		s.Answers = answers(
			"initialize", `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"old","version":"1"}}`,
			"tools/list", `"result":{"tools":[{"name":"a","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}]}`,
			"tools/call", "!lines "+strings.Repeat(`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{`+completed+"}}\n", 20)+
				`{"jsonrpc":"2.0","id":$id,"result":{"task":{`+working+`}}}`,
			"tasks/get", `"result":{`+completed+`}`, "tasks/result", called)
		c, _ := dialTask(t, nil, s)
		for _, err := range c.Tools(t.Context()) { // the client learns that the tool runs as a task
			if err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		if text, err := client.CallTool[string](t.Context(), c, "a", nil); err != nil || text != "called" || time.Since(start) > time.Second {
			t.Errorf("%q, %v after %v; want the result at once", text, err, time.Since(start))
		}
	})
}
