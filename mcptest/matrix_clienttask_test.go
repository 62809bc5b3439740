//lint:file-ignore SA1019 deprecated features must still work

package mcptest_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// Clients of 2025-11-25 run questions as tasks (basic/utilities/tasks). The comments name its
// sections.

// patientServer returns a server whose tools ask with server.Within. The tool "impatient" gives up
// when the client gets the question.
func patientServer(asked <-chan struct{}) *server.Server {
	s := newServer()
	within := server.Within(time.Minute)
	server.AddTool(s, mcp.Tool{Name: "form"}, func(ctx context.Context, _ struct{}) (string, error) {
		form, err := server.Elicit[place](ctx, "which city?", within)
		return form.City, err
	})
	server.AddTool(s, mcp.Tool{Name: "model"}, func(ctx context.Context, _ struct{}) (string, error) {
		sampled, err := server.Sample(ctx, mcp.CreateMessageParams{
			MaxTokens: 10, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: []mcp.Content{mcp.Text("which city?")}}},
		}, within)
		if err != nil {
			return "", err
		}
		return sampled.Content[0].(*mcp.TextContent).Text, nil
	})
	server.AddTool(s, mcp.Tool{Name: "impatient"}, func(ctx context.Context, _ struct{}) (string, error) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		go func() {
			<-asked
			cancel(errors.New("no time left"))
		}()
		_, err := server.Elicit[place](ctx, "which city?", within)
		return "", err
	})
	return s
}

// sentCount counts the messages of a connection by direction and method.
type sentCount struct {
	mu    sync.Mutex
	count map[string]int // by "> " for sent or "< " for received, and the method
	texts []string
}

func (n *sentCount) message(sent bool, raw []byte) {
	m, err := jsonrpc.Parse(append([]byte(nil), raw...), jsonrpc.Limits{})
	if err != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	direction := "< "
	if sent {
		direction = "> "
	}
	n.count[direction+m.Method]++
	n.texts = append(n.texts, direction+string(raw))
}

func (n *sentCount) of(message string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.count[message]
}

func (n *sentCount) has(text string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Contains(strings.Join(n.texts, "\n"), text)
}

// withPatientServer runs f on each transport of the revisions.
func withPatientServer(t *testing.T, revisions []mcp.Revision, asked chan struct{}, f func(t *testing.T, dial func(...func(*client.Dialer)) (*client.Client, *sentCount))) {
	for _, r := range revisions {
		for _, tr := range mcptest.Transports() {
			if !tr.Supports(r) {
				continue
			}
			t.Run(string(r)+"/"+tr.Name, func(t *testing.T) {
				f(t, func(configure ...func(*client.Dialer)) (*client.Client, *sentCount) {
					n := &sentCount{count: make(map[string]int)}
					tp := &tap{t: t, revision: r, transport: tr.Name, methods: make(map[jsonrpc.ID]string), seen: make(map[string]int)}
					answers := func(d *client.Dialer) {
						d.Trace = func(sent bool, raw []byte) {
							tp.message(sent, raw)
							n.message(sent, raw)
						}
						d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
							return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: []byte(`{"city":"Oslo"}`)}, nil
						}
						d.Sample = func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
							return &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: "m", Content: []mcp.Content{mcp.Text("Rome")}}, nil
						}
					}
					return tr.Dial(t, patientServer(asked), append([]func(*client.Dialer){mcptest.WithRevision(r), answers}, configure...)...), n
				})
			})
		}
	}
}

// Creating Tasks, Retrieving Task Results: the client creates a task at once, and the server retrieves
// its result. Capability Negotiation: the server does not ask for a task unless the client declares it.
func TestQuestionsWithinATimeRunAsTasksOfTheClient(t *testing.T) {
	withPatientServer(t, mcp.Revisions(), nil, func(t *testing.T, dial func(...func(*client.Dialer)) (*client.Client, *sentCount)) {
		for _, noTasks := range []bool{false, true} {
			c, n := dial(func(d *client.Dialer) { d.NoTasks = noTasks })
			for tool, want := range map[string]string{"form": "Oslo", "model": "Rome"} {
				if tool == "form" && c.Revision() < mcp.V20250618 {
					continue
				}
				if text, err := client.CallTool[string](t.Context(), c, tool, nil); err != nil || text != want {
					t.Errorf("%s: %q, %v", tool, text, err)
				}
			}
			results := 0
			if c.Revision() == mcp.V20251125 && !noTasks {
				results = 2
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if got := n.of("< tasks/result"); got != results || n.has(`"task":{"ttl":60000}`) != (results > 0) {
				t.Errorf("NoTasks %t: the client received %d requests for results of tasks, want %d: %q", noTasks, got, results, n.texts)
			}
			if got := n.of("> notifications/tasks/status"); got != results {
				t.Errorf("NoTasks %t: the client sent %d notifications, want %d", noTasks, got, results)
			}
		}
	})
}

// Task Cancellation: the server cancels the task when its handler gives up, and the handler of the
// client ends. Cancellation: tasks/cancel MUST be used instead of notifications/cancelled.
func TestServerThatGivesUpCancelsTheTaskOfTheClient(t *testing.T) {
	asked := make(chan struct{})
	withPatientServer(t, []mcp.Revision{mcp.V20251125}, asked, func(t *testing.T, dial func(...func(*client.Dialer)) (*client.Client, *sentCount)) {
		ended := make(chan error, 1)
		c, n := dial(func(d *client.Dialer) {
			d.Elicit = func(ctx context.Context, _ *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				asked <- struct{}{}
				<-ctx.Done()
				ended <- context.Cause(ctx)
				return nil, ctx.Err()
			}
		})
		_, err := client.CallTool[string](t.Context(), c, "impatient", nil)
		if err == nil || !strings.Contains(err.Error(), "no time left") {
			t.Errorf("the tool has %v", err)
		}
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "cancelled the task") {
			t.Errorf("the handler of the client ended with %v", err)
		}
		if n.of("< tasks/cancel") != 1 || n.of("< notifications/cancelled") != 0 || !n.has(`"status":"cancelled"`) {
			t.Errorf("%q", n.texts)
		}
	})
}

// Task Execution Errors: an error of the handler is that of tasks/result. User Interaction: declined
// questions are results.
func TestServerReceivesTheErrorOfTheTaskOfTheClient(t *testing.T) {
	withPatientServer(t, []mcp.Revision{mcp.V20251125}, nil, func(t *testing.T, dial func(...func(*client.Dialer)) (*client.Client, *sentCount)) {
		c, n := dial(func(d *client.Dialer) {
			d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
			}
			d.Sample = func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
				return nil, jsonrpc.Errorf(-32099, "no model today")
			}
		})
		if _, err := client.CallTool[string](t.Context(), c, "form", nil); err == nil || !strings.Contains(err.Error(), "declined") {
			t.Errorf("%v", err)
		}
		if _, err := client.CallTool[string](t.Context(), c, "model", nil); err == nil || !strings.Contains(err.Error(), "no model today") {
			t.Errorf("%v", err)
		}
		if !n.has(`"status":"failed"`) || !n.has(`"statusMessage":"no model today"`) {
			t.Errorf("%q", n.texts)
		}
	})
}

// Associating Task-Related Messages: an elicitation on which a task depends MUST share its related
// task, and so MUST the response.
func TestResponseToAQuestionOfATaskNamesTheTask(t *testing.T) {
	for _, tr := range mcptest.Transports() {
		if !tr.Supports(mcp.V20251125) {
			continue
		}
		t.Run(tr.Name, func(t *testing.T) {
			s, _ := taskServer()
			n := &sentCount{count: make(map[string]int)}
			c := tr.Dial(t, s, mcptest.WithRevision(mcp.V20251125), func(d *client.Dialer) {
				d.Trace = n.message
				d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
					return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: []byte(`{"city":"Oslo"}`)}, nil
				}
			})
			task, err := c.StartTool(t.Context(), "greet", nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := task.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			related := `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"` + task.ID() + `"}}`
			n.mu.Lock()
			defer n.mu.Unlock()
			found := false
			for _, text := range n.texts {
				found = found || strings.HasPrefix(text, "> ") && strings.Contains(text, `"action":"accept"`) && strings.Contains(text, related)
			}
			if !found {
				t.Errorf("no response has %s: %q", related, n.texts)
			}
		})
	}
}
