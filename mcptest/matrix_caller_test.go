//lint:file-ignore SA1019 deprecated features must still work

package mcptest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

type userKey struct{}

type asks struct{ User string }

// meetingOf returns a server whose tool ask asks its client a question when n calls are in flight, and returns
// the answer. A call ends when all questions have been answered.
func meetingOf(n int) *server.Server {
	s := &server.Server{Name: "meeting"}
	var mu sync.Mutex
	arrived, answered := 0, 0
	all, done := make(chan struct{}), make(chan struct{})
	wait := func(ctx context.Context, count *int, reached chan struct{}) error {
		mu.Lock()
		if *count++; *count == n {
			close(reached)
		}
		mu.Unlock()
		select {
		case <-reached:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	server.AddTool(s, mcp.Tool{Name: "ask"}, func(ctx context.Context, q asks) (string, error) {
		text, err := server.Once(ctx, "arrive", func(ctx context.Context, _ string) (string, error) { return "", wait(ctx, &arrived, all) })
		if err != nil {
			return "", err
		}
		answer, err := server.Sample(ctx, mcp.CreateMessageParams{
			MaxTokens: 1, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: []mcp.Content{&mcp.TextContent{Text: q.User}}}},
		})
		if errors.Is(err, server.ErrInputRequired) {
			return "", err
		}
		if waitErr := wait(ctx, &answered, done); waitErr != nil {
			return "", waitErr
		}
		if err != nil {
			return "", err
		}
		return text + answer.Content[0].(*mcp.TextContent).Text, nil
	})
	return s
}

// sampler answers with the question and the user in the context.
func sampler(d *client.Dialer) {
	d.Sample = func(ctx context.Context, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
		user, _ := ctx.Value(userKey{}).(string)
		text := params.Messages[0].Content[0].(*mcp.TextContent).Text + " asks " + user
		return &mcp.CreateMessageResult{Model: "m", Role: mcp.RoleAssistant, Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
	}
}

const users = 5

func TestInputRequestsReachTheCallerOfTheirCall(t *testing.T) {
	mcptest.Everywhere(t, func() *server.Server { return meetingOf(users) }, func(t *testing.T, c *client.Client) {
		identified := c.Revision().Modern() || strings.HasSuffix(t.Name(), "/http")
		var calls sync.WaitGroup
		for i := range users {
			calls.Go(func() {
				user := fmt.Sprint("user ", i)
				ctx, cancel := context.WithTimeout(client.WithCaller(context.WithValue(t.Context(), userKey{}, user), user), time.Minute)
				defer cancel()
				got, err := client.CallTool[string](ctx, c, "ask", asks{user})
				switch {
				case identified && (err != nil || got != user+" asks "+user):
					t.Errorf("%s received %q, %v", user, got, err)
				case !identified && (err == nil || !strings.Contains(err.Error(), "requests of several callers are in flight")):
					t.Errorf("%s received %q, %v, want an error", user, got, err)
				}
			})
		}
		calls.Wait()
	}, sampler)
}

func TestInputRequestsReachACallOfTheOnlyCaller(t *testing.T) {
	mcptest.Everywhere(t, func() *server.Server { return meetingOf(users) }, func(t *testing.T, c *client.Client) {
		var calls sync.WaitGroup
		for i := range users {
			calls.Go(func() {
				ctx, cancel := context.WithTimeout(client.WithCaller(context.WithValue(t.Context(), userKey{}, "the user"), "the user"), time.Minute)
				defer cancel()
				q := fmt.Sprint("call ", i)
				if got, err := client.CallTool[string](ctx, c, "ask", asks{q}); err != nil || got != q+" asks the user" {
					t.Errorf("%s received %q, %v", q, got, err)
				}
			})
		}
		calls.Wait()
	}, sampler)
}

// The call whose context an input request has may end before the call that it belongs to.
func TestInputRequestIsAnsweredForAnotherCallOfTheCaller(t *testing.T) {
	for _, r := range []mcp.Revision{mcp.V20241105, mcp.V20251125} {
		first := make(chan string, 2) // the call whose context the first run of Sample has
		s := &server.Server{Name: "two"}
		server.AddTool(s, mcp.Tool{Name: "ask"}, func(ctx context.Context, q asks) (string, error) {
			answer, err := server.Sample(ctx, mcp.CreateMessageParams{MaxTokens: 1, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: []mcp.Content{&mcp.TextContent{Text: q.User}}}}})
			if err != nil {
				return "", err
			}
			return answer.Content[0].(*mcp.TextContent).Text, nil
		})
		started := make(chan struct{}, 1)
		server.AddTool(s, mcp.Tool{Name: "wait"}, func(ctx context.Context, _ struct{}) (string, error) {
			started <- struct{}{}
			<-ctx.Done()
			return "", context.Cause(ctx)
		})
		c := mcptest.Dial(t, s, mcptest.WithRevision(r), func(d *client.Dialer) {
			d.Sample = func(ctx context.Context, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
				user, _ := ctx.Value(userKey{}).(string)
				if user == "wait" { // as the call of a server that has ended
					return nil, call.ErrCallDone
				}
				first <- user
				return &mcp.CreateMessageResult{Model: "m", Role: mcp.RoleAssistant, Content: []mcp.Content{&mcp.TextContent{Text: "yes"}}}, nil
			}
		})
		waiting, cancel := context.WithCancel(context.WithValue(t.Context(), userKey{}, "wait"))
		var other sync.WaitGroup
		other.Go(func() { _, _ = c.CallTool(waiting, "wait", nil) })
		<-started
		got, err := client.CallTool[string](context.WithValue(t.Context(), userKey{}, "ask"), c, "ask", asks{"?"})
		if err != nil || got != "yes" || <-first != "ask" {
			t.Errorf("%s: %q, %v", r, got, err)
		}
		cancel()
		other.Wait()
	}
}

func TestLogMessagesHaveTheContextOfTheirCall(t *testing.T) {
	logs := make(chan string, 100)
	mcptest.Everywhere(t, func() *server.Server {
		s := &server.Server{Name: "log"}
		server.AddTool(s, mcp.Tool{Name: "log"}, func(ctx context.Context, q asks) (string, error) {
			server.Logger(ctx).Warn(q.User)
			return "", nil
		})
		return s
	}, func(t *testing.T, c *client.Client) {
		if err := c.SetLogLevel(t.Context(), mcp.LevelDebug); err != nil {
			t.Fatal(err)
		}
		if _, err := c.CallTool(context.WithValue(t.Context(), userKey{}, "ada"), "log", asks{"hello"}); err != nil {
			t.Fatal(err)
		}
		if got := <-logs; got != `ada: {"message":"hello"}` {
			t.Errorf("received %s", got)
		}
	}, func(d *client.Dialer) {
		d.OnLog = func(ctx context.Context, m mcp.LoggingMessageParams) {
			logs <- fmt.Sprintf("%v: %s", ctx.Value(userKey{}), m.Data)
		}
	})
}

func TestLogMessagesOfACompletionDoNotReachAnotherCaller(t *testing.T) {
	started, logs := make(chan struct{}, 1), make(chan string, 100)
	mcptest.Everywhere(t, func() *server.Server {
		s := &server.Server{Name: "log"}
		server.AddTool(s, mcp.Tool{Name: "wait"}, func(ctx context.Context, _ struct{}) (string, error) {
			started <- struct{}{}
			<-ctx.Done()
			return "", context.Cause(ctx)
		})
		if err := s.RegisterPrompt(mcp.Prompt{Name: "hello", Arguments: []mcp.PromptArgument{{Name: "name"}}}, func(context.Context, map[string]string) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{}, nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := s.RegisterCompletion(mcp.CompleteReference{Type: mcp.RefPrompt, Name: "hello"}, "name", func(ctx context.Context, value string, _ map[string]string) (*mcp.Completion, error) {
			server.Logger(ctx).Warn(value)
			return &mcp.Completion{}, nil
		}); err != nil {
			t.Fatal(err)
		}
		return s
	}, func(t *testing.T, c *client.Client) {
		if err := c.SetLogLevel(t.Context(), mcp.LevelDebug); err != nil {
			t.Fatal(err)
		}
		as := func(user string) context.Context {
			return client.WithCaller(context.WithValue(t.Context(), userKey{}, user), user)
		}
		waiting, cancel := context.WithCancel(as("ada"))
		var other sync.WaitGroup
		other.Go(func() { _, _ = c.CallTool(waiting, "wait", nil) })
		<-started
		_, err := c.Complete(as("bob"), mcp.CompleteParams{
			Ref: mcp.CompleteReference{Type: mcp.RefPrompt, Name: "hello"}, Argument: mcp.CompleteArgument{Name: "name", Value: "secret"},
		})
		if err != nil {
			t.Error(err)
		} else if got := <-logs; got != "bob" && got != "<nil>" {
			t.Errorf("a message for bob has the context of %s", got)
		}
		cancel()
		other.Wait()
	}, func(d *client.Dialer) {
		d.OnLog = func(ctx context.Context, _ mcp.LoggingMessageParams) { logs <- fmt.Sprint(ctx.Value(userKey{})) }
	})
}
