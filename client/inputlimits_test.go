package client_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

const question = `{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`

// asking returns a result that requires n answers.
func asking(n int) string {
	questions := make([]string, n)
	for i := range questions {
		questions[i] = fmt.Sprintf(`"%d":%s`, i, question)
	}
	return `"result":{"resultType":"input_required","requestState":"s","inputRequests":{` + strings.Join(questions, ",") + `}}`
}

// drain returns the last error of a list or of a watch.
func drain[E any](all iter.Seq2[E, error]) (err error) {
	for _, err = range all {
	}
	return err
}

// Only tools/call, prompts/get and resources/read may require input (2026-07-28,
// basic/patterns/mrtr, Supported Requests).
func TestInputRequiredIsRejectedForOtherMethods(t *testing.T) {
	for method, call := range map[string]func(context.Context, *client.Client) error{
		"tools/list":               func(ctx context.Context, c *client.Client) error { return drain(c.Tools(ctx)) },
		"prompts/list":             func(ctx context.Context, c *client.Client) error { return drain(c.Prompts(ctx)) },
		"resources/list":           func(ctx context.Context, c *client.Client) error { return drain(c.Resources(ctx)) },
		"resources/templates/list": func(ctx context.Context, c *client.Client) error { return drain(c.ResourceTemplates(ctx)) },
		"completion/complete": func(ctx context.Context, c *client.Client) error {
			_, err := c.Complete(ctx, mcp.CompleteParams{})
			return err
		},
		"server/discover": func(ctx context.Context, c *client.Client) error { return c.Ping(ctx) },
		"subscriptions/listen": func(ctx context.Context, c *client.Client) error {
			return drain(c.Watch(ctx, client.WatchFilter{}, client.WithoutReconnect()))
		},
		"com.example/do": func(ctx context.Context, c *client.Client) error {
			_, err := client.CallExtension[map[string]any](ctx, c, "com.example/do", nil)
			return err
		},
	} {
		t.Run(method, func(t *testing.T) {
			s := watchable()
			if method == "server/discover" { // the first is of the Dial
				s.Answers[method] = append(s.Answers[method], asking(1))
			} else {
				s.Answers[method] = []string{asking(1)}
			}
			d := quiet()
			d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				t.Error("the user was asked")
				return &mcp.ElicitResult{Action: mcp.ElicitCancel}, nil
			}
			to, rec := target(s)
			c, err := d.Dial(t.Context(), to)
			if err != nil {
				t.Fatal(err)
			}
			if err := call(t.Context(), c); !errors.Is(err, client.ErrInvalidResponse) {
				t.Errorf("got %v", err)
			}
			_ = c.Close()
			if got := rec.methods(); strings.Count(got, method) > 2 {
				t.Errorf("the server received %s", got)
			}
		})
	}
}

// gauge counts the questions that wait for the user.
type gauge struct {
	mu            sync.Mutex
	now, max, all int
	release       chan struct{}
}

func (g *gauge) elicit(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	g.mu.Lock()
	g.now++
	g.all++
	g.max = max(g.max, g.now)
	g.mu.Unlock()
	<-g.release
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now--
	return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
}

func TestQuestionsToTheUserAreLimited(t *testing.T) {
	const concurrent = 16
	legacyQuestions := make([]string, 101)
	for i := range legacyQuestions[:100] {
		legacyQuestions[i] = fmt.Sprintf(`{"jsonrpc":"2.0","id":"q$id-%d",%s`, i, question[1:])
	}
	legacyQuestions[100] = `{"jsonrpc":"2.0","id":$id,` + called + `}`
	modern, legacy := modernServer(), legacyServer()
	modern.Answers["tools/call"] = []string{asking(100), asking(100), called}
	legacy.Answers["tools/call"] = []string{"!lines " + strings.Join(legacyQuestions, "\n")}
	for era, s := range map[string]*script{"2026-07-28": modern, "2025-06-18": legacy} {
		t.Run(era, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := &gauge{release: make(chan struct{})}
				d := quiet()
				d.Elicit = g.elicit
				to, _ := target(s)
				c, err := d.Dial(t.Context(), to)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				var calls sync.WaitGroup
				for range 2 {
					calls.Go(func() {
						if _, err := client.CallTool[string](t.Context(), c, "a", nil); err != nil {
							t.Error(err)
						}
					})
				}
				synctest.Wait()
				if g.now != concurrent {
					t.Errorf("%d questions wait for the user, want %d", g.now, concurrent)
				}
				close(g.release)
				calls.Wait()
				synctest.Wait()
				if g.max != concurrent || g.all != 200 {
					t.Errorf("%d questions at the same time, %d in all, want %d and 200", g.max, g.all, concurrent)
				}
			})
		})
	}
}

func TestResultWithTooManyQuestionsIsRejected(t *testing.T) {
	s := modernServer()
	s.Answers["tools/call"] = []string{asking(257), called}
	d := quiet()
	d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		t.Error("the user was asked")
		return &mcp.ElicitResult{Action: mcp.ElicitCancel}, nil
	}
	to, _ := target(s)
	c, err := d.Dial(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var reported *jsonrpc.Error
	if _, err := client.CallTool[string](t.Context(), c, "a", nil); !errors.Is(err, client.ErrInvalidResponse) || errors.As(err, &reported) {
		t.Errorf("got %v", err)
	}
}

// A server must not send requests other than pings before it has answered initialize
// (basic/lifecycle, Initialization).
func TestRequestsBeforeTheHandshakeAreRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := legacyServer()
		early := `{"jsonrpc":"2.0","id":"q",` + question[1:] + "\n" + `{"jsonrpc":"2.0","id":"p","method":"ping"}` + "\n"
		s.Answers["initialize"] = []string{"!lines " + early + `{"jsonrpc":"2.0","id":$id,` + initialized + `}`}
		d := quiet()
		d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			t.Error("the user was asked")
			return &mcp.ElicitResult{Action: mcp.ElicitCancel}, nil
		}
		to, rec := target(s)
		c, err := d.Dial(t.Context(), to)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		_ = c.Close()
		got := rec.methods()
		if !strings.Contains(got, `"id":"q","error":{"code":-32600,`) || !strings.Contains(got, `"id":"p","result":{}`) {
			t.Errorf("the server received %s", got)
		}
	})
}
