package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// badInputRequests are input requests that the client must reject.
var badInputRequests = map[string]struct {
	method, params string
	code           int64 // error code that a server of 2025-11-25 receives
}{
	"Y6 tools not declared": {mcp.MethodCreateMessage,
		`{"maxTokens":1,"messages":[],"tools":[{"name":"a","inputSchema":{"type":"object"}}]}`,
		jsonrpc.CodeInvalidParams},
	"Y6 toolChoice not declared": {mcp.MethodCreateMessage,
		`{"maxTokens":1,"messages":[],"toolChoice":{"mode":"none"}}`, jsonrpc.CodeInvalidParams},
	"Y6 tool result without use": {mcp.MethodCreateMessage,
		`{"maxTokens":1,"messages":[{"role":"user","content":{"type":"tool_result","toolUseId":"1","content":[]}}]}`,
		jsonrpc.CodeInvalidParams},
	"Y6 tool use without result": {mcp.MethodCreateMessage,
		`{"maxTokens":1,"messages":[{"role":"assistant","content":{"type":"tool_use","id":"1","name":"a",` +
			`"input":{}}}]}`, jsonrpc.CodeInvalidParams},
	"messages not an array": {mcp.MethodCreateMessage, `{"maxTokens":1,"messages":{}}`, jsonrpc.CodeInvalidParams},
	"message not a string": {mcp.MethodElicit,
		`{"message":7,"requestedSchema":{"type":"object","properties":{}}}`, jsonrpc.CodeInvalidParams},
	"V7 nested object": {mcp.MethodElicit,
		`{"message":"?","requestedSchema":{"type":"object","properties":{"a":{"type":"object","properties":{}}}}}`,
		jsonrpc.CodeInvalidParams},
	"V7 array of objects": {mcp.MethodElicit,
		`{"message":"?","requestedSchema":{"type":"object","properties":{"a":{"type":"array",` +
			`"items":{"type":"object"}}}}}`, jsonrpc.CodeInvalidParams},
	"V7 schema of an array": {mcp.MethodElicit, `{"message":"?","requestedSchema":{"type":"array"}}`,
		jsonrpc.CodeInvalidParams},
	"V7 no schema": {mcp.MethodElicit, `{"message":"?"}`, jsonrpc.CodeInvalidParams},
	"V7 schema with $ref": {mcp.MethodElicit,
		`{"message":"?","requestedSchema":{"$ref":"https://example.com/form"}}`, jsonrpc.CodeInvalidParams},
	"M4 mode not declared": {mcp.MethodElicit,
		`{"mode":"url","message":"?","url":"https://example.com/","elicitationId":"1"}`, jsonrpc.CodeInvalidParams},
	"M4 unknown mode":       {mcp.MethodElicit, `{"mode":"video","message":"?"}`, jsonrpc.CodeInvalidParams},
	"M4 roots not declared": {mcp.MethodListRoots, `{}`, jsonrpc.CodeMethodNotFound},
	"not an input request":  {"tools/call", `{"name":"a"}`, jsonrpc.CodeMethodNotFound},
}

// Rules M4, V7, Y6: the client rejects invalid input requests without asking the user or the model.
// In a session the server receives an error.
func TestInvalidInputRequestsAreRejected(t *testing.T) {
	failing := func(d *client.Dialer, t *testing.T) {
		d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			t.Error("the user was asked")
			return &mcp.ElicitResult{Action: mcp.ElicitCancel}, nil
		}
		d.Sample = func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
			t.Error("the model was asked")
			return nil, errors.New("no")
		}
	}
	for name, q := range badInputRequests {
		t.Run(name, func(t *testing.T) {
			t.Run("2025-11-25", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := legacyServer()
					s.Answers["initialize"] = []string{initialized2511}
					ask := fmt.Sprintf(`{"jsonrpc":"2.0","id":"q","method":"%s","params":%s}`, q.method, q.params)
					s.Answers["tools/call"] = []string{"!lines " + ask + "\n" + `{"jsonrpc":"2.0","id":$id,` + called +
						`}`}
					d := quiet()
					failing(&d, t)
					d.Revision = mcp.V20251125
					to, rec := target(s)
					c := must.Get(d.Dial(t.Context(), to))(t)
					must.Check(t, must.Err(client.CallTool[string](t.Context(), c, "a", nil)))
					synctest.Wait()
					_ = c.Close()
					must.CheckContains(t, rec.methods(), fmt.Sprintf(`"id":"q","error":{"code":%d,`, q.code))
				})
			})
			t.Run("2026-07-28", func(t *testing.T) {
				s := modernServer()
				s.Answers["tools/call"] = []string{fmt.Sprintf(`"result":{"resultType":"input_required",`+
					`"requestState":"s","inputRequests":{"q":{"method":"%s","params":%s}}}`, q.method, q.params),
					called}
				d := quiet()
				failing(&d, t)
				to, rec := target(s)
				c := must.Get(d.Dial(t.Context(), to))(t)
				_, err := client.CallTool[string](t.Context(), c, "a", nil)
				var reported *jsonrpc.Error // Rule J10: such an error would come from the server
				must.CheckThat(t, errors.Is(err, call.ErrInvalidResponse) && !errors.As(err, &reported), "got %v", err)
				_ = c.Close()
				if got := rec.methods(); strings.Count(got, "tools/call") != 1 || strings.Contains(got, "response") {
					t.Errorf("the server received %s", got)
				}
			})
		})
	}
}

// A result of a type other than "complete" is not an empty result, in any revision.
func TestResultsOfOtherTypesAreInvalidInSessions(t *testing.T) {
	for name, body := range map[string]string{
		"questions": asking(1), "nothing else": `"result":{"resultType":"input_required"}`,
		"a task": `"result":{"resultType":"task","taskId":"t","status":"working","ttlMs":1}`,
	} {
		s := legacyServer()
		s.Answers["initialize"] = []string{initialized2511}
		for _, method := range []string{mcp.MethodCallTool, mcp.MethodGetPrompt, mcp.MethodReadResource,
			mcp.MethodComplete, mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources,
			mcp.MethodListResourceTemplates} {
			s.Answers[method] = []string{body}
		}
		c, _ := dial(t, s)
		ctx := t.Context()
		for method, err := range map[string]error{
			mcp.MethodCallTool:              must.Err(c.CallTool(ctx, "a", nil)),
			mcp.MethodGetPrompt:             must.Err(c.GetPrompt(ctx, "a", nil)),
			mcp.MethodReadResource:          must.Err(c.ReadResource(ctx, "a://b")),
			mcp.MethodComplete:              must.Err(c.Complete(ctx, mcp.CompleteParams{})),
			mcp.MethodListTools:             drain(c.Tools(ctx)),
			mcp.MethodListPrompts:           drain(c.Prompts(ctx)),
			mcp.MethodListResources:         drain(c.Resources(ctx)),
			mcp.MethodListResourceTemplates: drain(c.ResourceTemplates(ctx)),
		} {
			must.CheckIs(t, err, call.ErrInvalidResponse, name, method)
		}
	}
}

const question = `{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object",` +
	`"properties":{}}}}`

// asking returns a result that requires n answers.
func asking(n int) string {
	questions := make([]string, n)
	for i := range questions {
		questions[i] = fmt.Sprintf(`"%d":%s`, i, question)
	}
	return `"result":{"resultType":"input_required","requestState":"s","inputRequests":{` +
		strings.Join(questions, ",") + `}}`
}

// drain returns the last error of a list or of a watch.
func drain[E any](all iter.Seq2[E, error]) (err error) {
	for _, err = range all {
	}
	return err
}

// An option that does not apply to a request is an error, and the request is not sent.
func TestOptionsApplyToTheirRequests(t *testing.T) {
	s := modernServer()
	c, rec := dial(t, s)
	ctx := t.Context()
	for name, request := range map[string]func() error{
		"WithRefresh":  func() error { _, err := c.CallTool(ctx, "t", nil, client.WithRefresh()); return err },
		"WithLogLevel": func() error { return drain(c.Tools(ctx, client.WithLogLevel(mcp.LevelInfo))) },
		"WithSource": func() error {
			_, err := c.CallExtension(ctx, "com.example/do", nil, client.WithSource())
			return err
		},
		"WithProgress": func() error {
			return drain(c.Watch(ctx, client.WatchFilter{}, client.WithProgress(func(float64, float64, string) {})))
		},
		"WithUndecodedText": func() error { _, err := c.ReadResource(ctx, "x://a", client.WithUndecodedText()); return err },
		"WithoutReconnect":  func() error { _, err := c.GetPrompt(ctx, "p", nil, client.WithoutReconnect()); return err },
	} {
		must.CheckFails(t, request(), "the option "+name+" does not apply", name)
	}
	c.Close()
	must.CheckEqual(t, rec.methods(), probed)
}

// Only tools/call, prompts/get and resources/read may require input (2026-07-28,
// basic/patterns/mrtr, Supported Requests).
func TestInputRequiredIsRejectedForOtherMethods(t *testing.T) {
	for method, request := range map[string]func(context.Context, *client.Client) error{
		"tools/list":     func(ctx context.Context, c *client.Client) error { return drain(c.Tools(ctx)) },
		"prompts/list":   func(ctx context.Context, c *client.Client) error { return drain(c.Prompts(ctx)) },
		"resources/list": func(ctx context.Context, c *client.Client) error { return drain(c.Resources(ctx)) },
		"resources/templates/list": func(ctx context.Context, c *client.Client) error {
			return drain(c.ResourceTemplates(ctx))
		},
		"completion/complete": func(ctx context.Context, c *client.Client) error {
			_, err := c.Complete(ctx, mcp.CompleteParams{})
			return err
		},
		"server/discover": func(ctx context.Context, c *client.Client) error { return c.Ping(ctx) },
		"subscriptions/listen": func(ctx context.Context, c *client.Client) error {
			return drain(c.Watch(ctx, client.WatchFilter{}, client.WithoutReconnect()))
		},
		"com.example/do": func(ctx context.Context, c *client.Client) error {
			_, err := c.CallExtension(ctx, "com.example/do", nil)
			return err
		},
	} {
		t.Run(method, func(t *testing.T) {
			s := watchable()
			if method == "server/discover" { // the Dial sends it first
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
			c := must.Get(d.Dial(t.Context(), to))(t)
			must.CheckIs(t, request(t.Context(), c), call.ErrInvalidResponse)
			_ = c.Close()
			got := rec.methods()
			must.CheckThat(t, strings.Count(got, method) <= 2, "the server received %s", got)
		})
	}
}

// gauge counts the questions that are waiting for the user.
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
				c := must.Get(d.Dial(t.Context(), to))(t)
				defer c.Close()
				var calls sync.WaitGroup
				for range 2 {
					calls.Go(func() { must.Check(t, must.Err(client.CallTool[string](t.Context(), c, "a", nil))) })
				}
				synctest.Wait()
				must.CheckEqual(t, g.now, concurrent)
				close(g.release)
				calls.Wait()
				synctest.Wait()
				must.CheckEqual(t, g.max, concurrent)
				must.CheckEqual(t, g.all, 200)
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
	c := must.Get(d.Dial(t.Context(), to))(t)
	defer c.Close()
	var reported *jsonrpc.Error
	_, err := client.CallTool[string](t.Context(), c, "a", nil)
	must.CheckThat(t, errors.Is(err, call.ErrInvalidResponse) && !errors.As(err, &reported), "got %v", err)
}

// A server must not send requests other than pings before it has answered initialize (basic/lifecycle, Initialization).
func TestRequestsBeforeTheHandshakeAreRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := legacyServer()
		early := `{"jsonrpc":"2.0","id":"q",` + question[1:] + "\n" + `{"jsonrpc":"2.0","id":"p","method":"ping"}` +
			"\n"
		s.Answers["initialize"] = []string{"!lines " + early + `{"jsonrpc":"2.0","id":$id,` + initialized + `}`}
		d := quiet()
		d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			t.Error("the user was asked")
			return &mcp.ElicitResult{Action: mcp.ElicitCancel}, nil
		}
		to, rec := target(s)
		c := must.Get(d.Dial(t.Context(), to))(t)
		synctest.Wait()
		_ = c.Close()
		got := rec.methods()
		must.CheckContains(t, got, `"id":"q","error":{"code":-32600,`)
		must.CheckContains(t, got, `"id":"p","result":{}`)
	})
}

// Rule M3: the client returns requestState unchanged, and only in the next request of the call.
func TestRequestStateIsReturnedUnchanged(t *testing.T) {
	const form = `"inputRequests":{"q":{"method":"elicitation/create","params":{"message":"?",` +
		`"requestedSchema":{"type":"object","properties":{}}}}}`
	for _, state := range []string{`"a\u0062\/c \u00e9 é"`, `"{\"looks\": [\"like\", 1.0, \"JSON\"]}"`, `""`, ``} {
		asked := `"result":{"resultType":"input_required",` + form
		if state != "" {
			asked += `,"requestState":` + state
		}
		near, far := transport.Pipe()
		var calls [][]byte
		ended := make(chan error, 1)
		go func() { // the server: it sends one input request for each call
			ended <- func() error {
				for {
					raw, err := far.Read(context.Background())
					if err != nil {
						return nil
					}
					m, err := jsonrpc.Parse(raw, jsonrpc.Limits{})
					if err != nil {
						return err
					}
					answer := discovered
					if m.Method == mcp.MethodCallTool {
						calls = append(calls, raw)
						if answer = `"result":{"resultType":"complete","content":[{"type":"text",` +
							`"text":"called"}]}`; len(calls)%2 == 1 {
							answer = asked + "}"
						}
					}
					if err := far.Write(context.Background(),
						fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID.Append(nil), answer)); err != nil {
						return err
					}
				}
			}()
		}()
		d := client.Dialer{Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return mcp.AcceptElicit(struct{}{})
		}}
		c := must.Get(d.Dial(t.Context(), client.Conn(near)))(t)
		for range 2 {
			must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, "a", nil))(t), "called")
		}
		must.Check(t, c.Close())
		must.Do(t, <-ended)
		must.Equal(t, len(calls), 4, calls)
		ids := make(map[jsonrpc.ID]bool)
		for i, raw := range calls {
			m := must.Get(jsonrpc.Parse(raw, jsonrpc.Limits{}))(t)
			ids[m.ID] = true
			got, found := jsonrpc.Get(m.Raw, "requestState")
			retry := i%2 == 1
			must.CheckThat(t, found == (retry && state != "") && (!found || bytes.Equal(got, []byte(state))),
				"requestState %s: request %d is %s", state, i, raw)
			if answers, found := jsonrpc.Get(m.Raw, "inputResponses"); found != retry {
				t.Errorf("request %d has inputResponses %s, want a retry only to have them", i, answers)
			}
		}
		must.CheckEqual(t, len(ids), len(calls), calls)
	}
}

// Rule H8: only file URIs are roots. The program learns of the rejected ones; the server does not.
func TestRootsAreFileURIs(t *testing.T) {
	const list = `"method":"roots/list","params":{}`
	modern, legacy := modernServer(), legacyServer()
	modern.Answers["tools/call"] = []string{`"result":{"resultType":"input_required","inputRequests":{"q":{` + list +
		`}}}`, called}
	legacy.Answers["tools/call"] = []string{"!lines " + `{"jsonrpc":"2.0","id":"q",` + list + "}\n" +
		`{"jsonrpc":"2.0","id":$id,` + called + `}`}
	for uri, valid := range map[string]bool{
		"file:///work": true, "file:///C:/work": true, "file://host/share": true, "file:///a%20b": true,
		"": false, "/canary": false, "canary": false, "file:canary": false, "file:/canary": false,
		"file://canary": false, "file://%zz/canary": false,
		"https://example.com/canary": false, "javascript:canary": false,
	} {
		for era, s := range map[string]*script{"2026-07-28": modern, "2025-06-18": legacy} {
			t.Run(era+"/"+uri, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var log bytes.Buffer
					d := client.Dialer{Logger: slog.New(slog.NewTextHandler(&log, nil))}
					d.Roots = func(context.Context) ([]mcp.Root, error) {
						return []mcp.Root{{URI: "file:///fine"}, {URI: uri}}, nil
					}
					sent := new(bytes.Buffer)
					d.Trace = func(out bool, message []byte) {
						if out {
							sent.Write(message)
						}
					}
					to, _ := target(s)
					c := must.Get(d.Dial(t.Context(), to))(t)
					_, err := client.CallTool[string](t.Context(), c, "a", nil)
					synctest.Wait()
					_ = c.Close()
					must.CheckEqual(t, strings.Contains(sent.String(), `"uri":"file:///fine"`), valid, sent)
					told := err != nil || log.Len() > 0
					must.CheckThat(t, told != valid, "%v; the log is %s", err, &log)
				})
			})
		}
	}
}
