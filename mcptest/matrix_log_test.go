package mcptest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// journal records the log messages that a client receives.
type journal struct {
	mu       sync.Mutex
	messages []mcp.LoggingMessageParams
}

func (j *journal) configure(d *client.Dialer) {
	d.OnLog = func(_ context.Context, m mcp.LoggingMessageParams) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.messages = append(j.messages, m)
	}
}

// take returns and removes the recorded messages, as lines of level, logger and data.
func (j *journal) take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var lines []string
	for _, m := range j.messages {
		lines = append(lines, fmt.Sprintf("%s %s %s", m.Level, m.Logger, m.Data))
	}
	j.messages = nil
	return lines
}

// logging returns a server with a tool that logs.
func logging() *server.Server {
	s := newServer()
	server.AddTool(s, mcp.Tool{Name: "log", Description: "Logs at every level."},
		func(ctx context.Context, _ struct{}) (string, error) {
			log := server.Logger(ctx).WithGroup("db").With("host", "here")
			for _, level := range []slog.Level{
				slog.LevelDebug, slog.LevelInfo, slog.Level(2), slog.LevelWarn,
				slog.LevelError, slog.Level(12), slog.Level(16), slog.Level(20),
			} {
				log.Log(context.Background(), level, "connected", "n", int(level))
			}
			return "logged", nil
		})
	return s
}

func logLevels(lines []string) string {
	var levels []string
	for _, line := range lines {
		level, _, _ := strings.Cut(line, " ")
		levels = append(levels, level)
	}
	return strings.Join(levels, " ")
}

// Rule Y4: a client receives messages of the level that it has set and above. Before it has set one it receives none in
// 2026-07-28, and messages of level info and above in older revisions.
func TestLogMessagesFollowLevelOfClient(t *testing.T) {
	const all = "debug info notice warning error critical alert emergency"
	var j journal
	everywhere(t, logging, func(t *testing.T, c *client.Client) {
		j.take()
		expect := func(want string) []string {
			t.Helper()
			must.Equal(t, must.Get(client.CallTool[string](t.Context(), c, "log", nil))(t), "logged")
			lines := j.take() // the messages of a call arrive before its response
			must.CheckEqual(t, logLevels(lines), want)
			return lines
		}
		if c.Revision().Modern() {
			expect("")
		} else {
			expect("info notice warning error critical alert emergency")
		}
		for from, level := range mcp.LoggingLevels() {
			must.Do(t, c.SetLogLevel(t.Context(), level))
			expect(strings.Join(strings.Fields(all)[from:], " "))
		}
		err := c.SetLogLevel(t.Context(), "loud")
		must.CheckThat(t, err != nil, "SetLogLevel accepts an unknown level")
		must.CheckEqual(t, expect("emergency")[0], `emergency db {"host":"here","message":"connected","n":20}`)
		must.CheckThat(t, c.Server().Capabilities.Logging != nil, "the logging capability is not declared")
	}, j.configure)
}

// Rule Y4: the rate of log messages is limited. The client receives the number of omitted messages.
func TestRateOfLogMessagesIsLimited(t *testing.T) {
	const flood = 2000
	flooding := func() *server.Server {
		s := newServer()
		server.AddTool(s, mcp.Tool{Name: "flood", Description: "Logs too much."},
			func(ctx context.Context, _ struct{}) (string, error) {
				for i := range flood {
					server.Logger(ctx).Warn("again", "i", i)
				}
				return "done", nil
			})
		return s
	}
	var j journal
	everywhere(t, flooding, func(t *testing.T, c *client.Client) {
		must.Do(t, c.SetLogLevel(t.Context(), mcp.LevelWarning))
		j.take()
		must.Get(client.CallTool[string](t.Context(), c, "flood", nil))(t)
		sent, lost := 0, 0
		for _, line := range j.take() {
			var data struct {
				I     *int
				Count int
			}
			must.Do(t, json.Unmarshal([]byte(strings.TrimPrefix(line, "warning  ")), &data), line)
			if data.I != nil {
				sent++
			}
			lost += data.Count
		}
		must.CheckThat(t, sent+lost == flood && lost != 0,
			"%d messages were sent and %d reported as omitted, want %d together", sent, lost, flood)
	}, j.configure)
}

// In 2026-07-28 the handler runs again with the answer. Messages from before the question must not be sent again.
func TestReplayDoesNotRepeatLogMessages(t *testing.T) {
	replaying := func() *server.Server {
		s := newServer()
		server.AddTool(s, mcp.Tool{Name: "order", Description: "Asks in between."},
			func(ctx context.Context, _ struct{}) (string, error) {
				log := server.Logger(ctx)
				log.Error("before")
				answer, err := question(ctx, "what?")
				if err != nil {
					log.Error("must not be sent")
					return "", err
				}
				log.Error("after")
				return answer, nil
			})
		return s
	}
	var j journal
	everywhere(t, replaying, func(t *testing.T, c *client.Client) {
		must.Do(t, c.SetLogLevel(t.Context(), mcp.LevelError))
		j.take()
		must.Get(client.CallTool[string](t.Context(), c, "order", nil))(t)
		want := `[error  {"message":"before"} error  {"message":"after"}]`
		must.CheckEqual(t, fmt.Sprint(j.take()), want)
	}, answering, j.configure)
}

func TestLoggerOfFinishedCallSendsNothing(t *testing.T) {
	loggers := make(chan *slog.Logger, 1)
	late := func() *server.Server {
		s := newServer()
		server.AddTool(s, mcp.Tool{Name: "leak", Description: "Leaks its logger."},
			func(ctx context.Context, _ struct{}) (string, error) {
				loggers <- server.Logger(ctx)
				return "", nil
			})
		return s
	}
	var j journal
	everywhere(t, late, func(t *testing.T, c *client.Client) {
		must.Do(t, c.SetLogLevel(t.Context(), mcp.LevelDebug))
		must.Get(c.CallTool(t.Context(), "leak", nil))(t)
		log := <-loggers
		must.CheckThat(t, !log.Enabled(t.Context(), slog.LevelError), "the logger of a finished call is enabled")
		log.Error("too late")
		must.Do(t, c.Ping(t.Context()))
		lines := j.take()
		must.CheckThat(t, len(lines) == 0, "received %s", lines)
	}, j.configure)
}

// When a session is lost, the client sets the level again in the new session.
func TestLogLevelSurvivesLossOfSession(t *testing.T) {
	for _, r := range []mcp.Revision{mcp.V20250326, mcp.V20250618, mcp.V20251125} {
		t.Run(string(r), func(t *testing.T) {
			var session atomic.Value // the session of the last request
			s := logging()
			endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				session.Store(r.Header.Get("Mcp-Session-Id"))
				s.ServeHTTP(w, r)
			}))
			defer endpoint.Close()
			var j journal
			d := &client.Dialer{Revision: r}
			j.configure(d)
			c := must.Get(d.Dial(t.Context(), client.URL(endpoint.URL)))(t)
			defer c.Close()
			must.Do(t, c.SetLogLevel(t.Context(), mcp.LevelAlert))
			must.Get(c.CallTool(t.Context(), "log", nil))(t)
			must.CheckEqual(t, logLevels(j.take()), "alert emergency")

			first := session.Load().(string)
			end := must.Get(http.NewRequestWithContext(t.Context(), http.MethodDelete, endpoint.URL, nil))(t)
			end.Header.Set("Mcp-Session-Id", first)
			resp := must.Get(http.DefaultClient.Do(end))(t)
			must.Equal(t, resp.StatusCode, http.StatusNoContent, resp)
			resp.Body.Close()
			must.Get(c.CallTool(t.Context(), "log", nil))(t)
			last := session.Load().(string)
			must.That(t, last != first, "the session has not been replaced")
			must.CheckEqual(t, logLevels(j.take()), "alert emergency")
		})
	}
}

func TestServerRejectsInvalidLogLevel(t *testing.T) {
	const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":`
	for name, message := range map[string]string{
		"unknown level": `{"jsonrpc":"2.0","id":"x","method":"logging/setLevel","params":{"level":"loud"}}`,
		"no level":      `{"jsonrpc":"2.0","id":"x","method":"logging/setLevel","params":{}}`,
		"a number":      `{"jsonrpc":"2.0","id":"x","method":"logging/setLevel","params":{"level":3}}`,
		"request, unknown level": `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"log",` +
			modernMeta + `"loud"}}}`,
		"request, a number": `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"log",` +
			modernMeta + `3}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			p := newRawPeer(t, logging(), mcp.V20251125)
			must.CheckContains(t, p.Ask(message), `"code":-32602`, message)
			must.CheckEqual(t, p.Ask(`{"jsonrpc":"2.0","id":"x","method":"logging/setLevel",`+
				`"params":{"level":"alert"}}`), `{"jsonrpc":"2.0","id":"x","result":{}}`, "response to a valid level")
		})
	}
	p := newRawPeer(t, logging(), mcp.V20251125)
	must.CheckContains(t,
		p.Ask(`{"jsonrpc":"2.0","id":"x","method":"logging/setLevel","params":{"level":"alert",`+modernMeta+
			`"alert"}}}`), `"code":-32601`, "response in 2026-07-28, which does not have the method")
}

// newRawPeer returns a peer after the handshake.
func newRawPeer(t *testing.T, s *server.Server, r mcp.Revision) *wiretest.Peer {
	t.Helper()
	p := wiretest.Connect(t, s.ServeConn)
	p.Handshake(string(r))
	return p
}

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
		text, err := server.Once(ctx, "arrive", func(ctx context.Context, _ string) (string, error) {
			return "", wait(ctx, &arrived, all)
		})
		if err != nil {
			return "", err
		}
		answer, err := server.Sample(ctx, mcp.CreateMessageParams{
			MaxTokens: 1, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser,
				Content: []mcp.Content{&mcp.TextContent{Text: q.User}}}},
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
		return &mcp.CreateMessageResult{Model: "m", Role: mcp.RoleAssistant,
			Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
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
				ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), userKey{}, user), time.Minute)
				defer cancel()
				got, err := client.CallTool[string](ctx, c, "ask", asks{user})
				switch {
				case identified && (err != nil || got != user+" asks "+user):
					t.Errorf("%s received %q, %v", user, got, err)
				case !identified && (err != nil || !strings.HasPrefix(got, user+" asks ")):
					t.Errorf("%s received %q, %v", user, got, err)
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
				ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), userKey{}, "the user"), time.Minute)
				defer cancel()
				q := fmt.Sprint("call ", i)
				got, err := client.CallTool[string](ctx, c, "ask", asks{q})
				must.CheckThat(t, err == nil && got == q+" asks the user", "%s received %q, %v", q, got, err)
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
			answer, err := server.Sample(ctx, mcp.CreateMessageParams{MaxTokens: 1,
				Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser,
					Content: []mcp.Content{&mcp.TextContent{Text: q.User}}}}})
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
				return &mcp.CreateMessageResult{Model: "m", Role: mcp.RoleAssistant,
					Content: []mcp.Content{&mcp.TextContent{Text: "yes"}}}, nil
			}
		})
		waiting, cancel := context.WithCancel(context.WithValue(t.Context(), userKey{}, "wait"))
		var other sync.WaitGroup
		other.Go(func() { _, _ = c.CallTool(waiting, "wait", nil) })
		<-started
		got, err := client.CallTool[string](context.WithValue(t.Context(), userKey{}, "ask"), c, "ask", asks{"?"})
		must.CheckThat(t, err == nil && got == "yes" && <-first == "ask", "%s: %q, %v", r, got, err)
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
		must.Do(t, c.SetLogLevel(t.Context(), mcp.LevelDebug))
		must.Get(c.CallTool(context.WithValue(t.Context(), userKey{}, "ada"), "log", asks{"hello"}))(t)
		must.CheckEqual(t, <-logs, `ada: {"message":"hello"}`)
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
		must.Do(t, s.RegisterPrompt(mcp.Prompt{Name: "hello", Arguments: []mcp.PromptArgument{{Name: "name"}}},
			func(context.Context, map[string]string) (*mcp.GetPromptResult, error) {
				return &mcp.GetPromptResult{}, nil
			},
			server.Complete("name", func(ctx context.Context, value string, _ map[string]string) ([]string, error) {
				server.Logger(ctx).Warn(value)
				return nil, nil
			})))
		return s
	}, func(t *testing.T, c *client.Client) {
		must.Do(t, c.SetLogLevel(t.Context(), mcp.LevelDebug))
		as := func(user string) context.Context { return context.WithValue(t.Context(), userKey{}, user) }
		waiting, cancel := context.WithCancel(as("ada"))
		var other sync.WaitGroup
		other.Go(func() { _, _ = c.CallTool(waiting, "wait", nil) })
		<-started
		_, err := c.Complete(as("bob"), mcp.CompleteParams{
			Ref:      mcp.CompleteReference{Type: mcp.RefPrompt, Name: "hello"},
			Argument: mcp.CompleteArgument{Name: "name", Value: "secret"},
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
