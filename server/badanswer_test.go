package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// inquisitive returns a server with a tool for each kind of question. Each tool returns the answer.
func inquisitive() *server.Server {
	s := &server.Server{}
	server.AddTool(s, mcp.Tool{Name: "elicitation"}, func(ctx context.Context, _ struct{}) (string, error) {
		form, err := server.Elicit[struct {
			Day    string `json:"day" enum:"mon,tue"`
			People int    `json:"people" minimum:"1" maximum:"9"`
			Sure   bool   `json:"sure"`
		}](ctx, "When?", server.Keyed("q"))
		return fmt.Sprint("answered ", form), err
	})
	server.AddTool(s, mcp.Tool{Name: "optional"}, func(ctx context.Context, _ struct{}) (string, error) {
		form, err := server.Elicit[struct {
			Day  string  `json:"day"`
			Note *string `json:"note"`
		}](ctx, "When?", server.Keyed("q"))
		return fmt.Sprint("answered ", form), err
	})
	server.AddTool(s, mcp.Tool{Name: "optional_by_schema"}, func(ctx context.Context, _ struct{}) (string, error) {
		content, err := server.ElicitForm(ctx, "When?",
			json.RawMessage(`{"type":"object","properties":{"day":{"type":"string"},"note":{"type":"string"}},`+
				`"required":["day"]}`), server.Keyed("q"))
		return "answered " + string(content), err
	})
	server.AddTool(s, mcp.Tool{Name: "sampling"}, func(ctx context.Context, _ struct{}) (string, error) {
		said, err := server.Sample(ctx, mcp.CreateMessageParams{MaxTokens: 1}, server.Keyed("q"))
		return fmt.Sprint("answered ", said), err
	})
	server.AddTool(s, mcp.Tool{Name: "roots"}, func(ctx context.Context, _ struct{}) (string, error) {
		roots, err := server.Roots(ctx, server.Keyed("q"))
		return fmt.Sprint("answered ", roots), err
	})
	return s
}

const everyCapability = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}`

// interview calls a tool and sends the same answer to every question until the call ends. It
// returns the response and the number of questions.
func interview(t *testing.T, modern bool, tool, answer string) (response string, asked int) {
	t.Helper()
	l := connectLine(t, inquisitive())
	if !modern {
		l.Send(strings.Replace(fmt.Sprintf(wiretest.Initialize, "2025-11-25"), `"capabilities":{}`,
			`"capabilities":`+everyCapability, 1))
		l.Receive()
		l.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":%q}}`, tool))
	}
	more := ""
	for range 20 {
		if modern {
			call := request(2, mcp.MethodCallTool, fmt.Sprintf(`"name":%q%s`, tool, more))
			l.Send(strings.Replace(call, `clientCapabilities":{}`, `clientCapabilities":`+everyCapability, 1))
		}
		text := l.Receive()
		m, err := jsonrpc.Parse([]byte(text), jsonrpc.Limits{})
		must.Do(t, err, text)
		if m.Kind == jsonrpc.Request {
			asked++
			l.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, answer))
			continue
		}
		questions, ok := jsonrpc.Get(m.Raw, "inputRequests")
		if !ok || m.Err != nil {
			return text, asked
		}
		asked++
		state, _ := jsonrpc.Get(m.Raw, "requestState")
		var answers []string
		for key := range jsonrpc.All(questions) {
			answers = append(answers, fmt.Sprintf(`%q:%s`, key, answer))
		}
		more = fmt.Sprintf(`,"requestState":%s,"inputResponses":{%s}`, state, strings.Join(answers, ","))
	}
	t.Fatal("the call does not end")
	return "", 0
}

// Rules M1, V7: an answer that does not match its question never reaches the handler. The question is
// repeated a few times, and then the call fails.
func TestAnswersOfAnotherTypeAreRejected(t *testing.T) {
	accept := func(content string) string { return `{"action":"accept","content":` + content + `}` }
	const sampled, rooted = `{"role":"assistant","model":"m","content":{"type":"text","text":"x"}}`,
		`{"roots":[{"uri":"file:///x"}]}`
	for tool, bad := range map[string][]string{
		"elicitation": {
			`{}`, `{"action":7}`, `{"action":"maybe"}`, `{"action":null}`, `{"Action":"accept"}`,
			`{"action":["accept"]}`,
			`{"action":"accept"}`, accept(`null`), accept(`[]`), accept(`"x"`), accept(`7`), accept(`{}`), sampled,
			rooted,
			accept(`{"day":1,"people":2,"sure":true}`),
			accept(`{"day":"wed","people":2,"sure":true}`),
			accept(`{"day":["mon"],"people":2,"sure":true}`),
			accept(`{"day":{"mon":1},"people":2,"sure":true}`),
			accept(`{"day":"mon","people":"2","sure":true}`),
			accept(`{"day":"mon","people":2.5,"sure":true}`),
			accept(`{"day":"mon","people":10,"sure":true}`),
			accept(`{"day":"mon","people":2,"sure":"true"}`),
			accept(`{"day":"mon","people":2,"sure":1}`),
			accept(`{"day":"mon","people":2}`),
			accept(`{"Day":"mon","people":2,"sure":true}`),
			accept(`[{"day":"mon","people":2,"sure":true}]`),
		},
		"sampling": {
			`{}`, accept(`{}`), rooted, `{"role":"assistant","model":"m"}`,
			`{"role":"assistant","model":"m","content":"x"}`,
			`{"role":7,"model":"m","content":{"type":"text","text":"x"}}`,
			`{"role":"assistant","model":[],"content":{"type":"text","text":"x"}}`,
			`{"role":"assistant","model":"m","content":{"type":"text","text":7}}`,
			`{"role":"assistant","model":"m","content":{"text":"x"}}`,
		},
		"roots": {
			accept(`{}`), sampled, `{"roots":null}`, `{"roots":[{}]}`, `{"roots":{}}`, `{"roots":"file:///x"}`,
			`{"roots":[7]}`, `{"roots":[{"uri":7}]}`, `{"roots":[["file:///x"]]}`,
		},
	} {
		for _, modern := range []bool{false, true} {
			for _, answer := range append(bad, `7`, `"accept"`, `[]`, `true`) {
				response, asked := interview(t, modern, tool, answer)
				must.CheckThat(t, !strings.Contains(response, "answered") && asked != 0 && asked <= 10,
					"%s, modern=%v: %s was taken when it was asked %d times: %s", tool, modern, answer, asked, response)
				must.CheckThat(t, !strings.HasPrefix(answer, "{") || asked == 3,
					"%s, modern=%v: %s was asked for %d times", tool, modern, answer, asked)
			}
		}
	}
}

func TestNullForAnOptionalFieldOfAFormIsAbsent(t *testing.T) {
	for tool, want := range map[string]string{"optional": `answered {mon \u003cnil\u003e}`,
		"optional_by_schema": `answered {\"day\":\"mon\"}`} {
		for _, modern := range []bool{false, true} {
			response, asked := interview(t, modern, tool, `{"action":"accept","content":{"day":"mon","note":null}}`)
			must.CheckThat(t, strings.Contains(strings.NewReplacer("<", `\u003c`, ">", `\u003e`).Replace(response),
				want) && asked == 1, "%s, modern=%v: asked %d times: %s", tool, modern, asked, response)
			if response, _ := interview(t, modern, tool,
				`{"action":"accept","content":{"day":null,"note":"x"}}`); strings.Contains(response, "answered") {
				t.Errorf("%s, modern=%v: null for a required field: %s", tool, modern, response)
			}
		}
	}
}

// Unknown members of an answer are ignored.
func TestUnknownMembersOfAnswersAreIgnored(t *testing.T) {
	for _, modern := range []bool{false, true} {
		for tool, answer := range map[string]string{
			"elicitation": `{"action":"accept","extra":{"x":1},"_meta":{"a/b":1},"content":{"day":"mon","people":2,` +
				`"sure":true}}`,
			"sampling": `{"role":"assistant","model":"m","content":{"type":"text","text":"x"},"extra":[1]}`,
			"roots":    `{"roots":[{"uri":"file:///x","extra":true}],"extra":1}`,
		} {
			response, asked := interview(t, modern, tool, answer)
			must.CheckThat(t, strings.Contains(response, "answered") && asked == 1,
				"%s, modern=%v: asked %d times: %s", tool, modern, asked, response)
		}
	}
}

// Rule J3: the questions of a session are answered in that session, under their own ids, by the
// client that received them (rule Y5).
func TestAnswersWithoutAQuestionAreIgnored(t *testing.T) {
	s := inquisitive()
	begin := func() *line {
		l := connectLine(t, s)
		l.Send(strings.Replace(fmt.Sprintf(wiretest.Initialize, "2025-11-25"), `"capabilities":{}`,
			`"capabilities":`+everyCapability, 1))
		l.Receive()
		return l
	}
	mine, other := begin(), begin()
	mine.Send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"roots"}}`)
	question := must.Get(jsonrpc.Parse([]byte(mine.Receive()), jsonrpc.Limits{}))(t)
	must.Equal(t, question.Method, mcp.MethodListRoots)
	forged := `{"roots":[{"uri":"file:///forged"}]}`
	for _, l := range []*line{mine, other} {
		for _, id := range []string{`1`, `"` + question.ID.String() + `"`, question.ID.String() + `0`, `-1`} {
			l.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, forged))
		}
	}
	other.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, question.ID, forged))
	other.Send(`{"jsonrpc":"2.0","id":3,"method":"ping"}`)
	must.CheckEqual(t, other.Receive(), `{"jsonrpc":"2.0","id":3,"result":{}}`)
	mine.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"roots":[{"uri":"file:///mine"}]}}`, question.ID))
	// the question is answered already
	mine.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, question.ID, forged))
	must.CheckContains(t, mine.Receive(), "file:///mine")
}

// Rule J15: a session can cancel only its own requests, over HTTP, too, where two sessions may belong
// to one client. In 2026-07-28 a notification over HTTP cancels nothing.
func TestASessionCannotCancelRequestsOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := httpServer()
		calls := addWait(s)
		mine, other := begin(t, s), begin(t, s)
		version := []string{"MCP-Protocol-Version", "2025-11-25"}
		x := openIn(t, s, http.MethodPost, "/", fmt.Sprintf(waitCall, 7), append(version, mine...)...)
		for _, header := range [][]string{append(version, other...), version, {"MCP-Protocol-Version", "2026-07-28"}} {
			inBubble(s, http.MethodPost, cancelled("7"), header...)
		}
		synctest.Wait()
		close((<-calls).release)
		if <-x.done; !strings.Contains(x.body(), "waited") {
			t.Error(x.body())
		}
		must.Check(t, s.Shutdown(t.Context()))
	})
}

// An invalid response ends the wait for the answer, as it does on a stream. A response in a batch
// is invalid in every revision but 2025-03-26.
func TestAnInvalidResponseEndsTheQuestion(t *testing.T) {
	for _, version := range []string{
		"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2024-11-05 batch", "2025-03-26 batch",
		"2025-06-18 batch", "2025-11-25 batch",
	} {
		t.Run(version, func(t *testing.T) {
			e := newEndpoint(t)
			server.AddTool(e.server, mcp.Tool{Name: "roots"}, func(ctx context.Context, _ struct{}) (string, error) {
				roots, err := server.Roots(ctx)
				return fmt.Sprint(roots), err
			})
			const call = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"roots"}}`
			version, batch := strings.CutSuffix(version, " batch")
			hello := strings.Replace(fmt.Sprintf(wiretest.Initialize, version), `"capabilities":{}`,
				`"capabilities":{"roots":{}}`, 1)
			path, header := "/", []string(nil)
			var stream *wiretest.Events
			if version == "2024-11-05" {
				pair := e.pair("/")
				path, stream = pair.endpoint, pair.Events
				e.do("POST", path, hello)
				stream.Data()
				e.do("POST", path, call)
			} else {
				header = []string{"Mcp-Session-Id", e.do("POST", path, hello).header.Get("Mcp-Session-Id"),
					"MCP-Protocol-Version", version}
				e.do("POST", path, wiretest.Initialized, header...)
				stream = wiretest.Stream(t, e.open(t.Context(), "POST", path, call, header...))
			}
			question := ""
			for !strings.Contains(question, "roots/list") {
				question = stream.Data()
				must.That(t, question != "", "nothing was asked")
			}
			_, id, _ := strings.Cut(question, `"id":`)
			id, _, _ = strings.Cut(id, ",")
			none, want := `{"jsonrpc":"2.0","id":`+id+`,"result":{"roots":[]},"error":{"code":1,"message":"both"}}`, 400
			if batch && version == "2025-03-26" {
				none, want = "["+none+"]", 202
			} else if batch {
				none = `[{"jsonrpc":"2.0","id":` + id + `,"result":{"roots":[]}}]`
			}
			a := e.do("POST", path, none, header...)
			must.CheckEqual(t, a.status, want, a)
			data := stream.Data()
			must.CheckThat(t, strings.Contains(data, `"id":2`) && strings.Contains(data, `"isError":true`) &&
				strings.Contains(data, "invalid response"), "the call was answered with %q", data)
		})
	}
}

// Roots must be file URIs (client/roots, Data Types). The handler gets ErrBadAnswer for others.
// Rule H8.
func TestRootsOfClientsAreFileURIs(t *testing.T) {
	for uri, valid := range map[string]bool{
		"file:///work": true, "file:///C:/work": true, "file://host/share": true, "file:///a%20b": true,
		"": false, "/canary": false, "canary": false, "file:canary": false, "file:/canary": false,
		"file://canary": false, "file://%zz/canary": false,
		"https://example.com/canary": false, "javascript:canary": false,
	} {
		for _, modern := range []bool{false, true} {
			response, asked := interview(t, modern, "roots",
				fmt.Sprintf(`{"roots":[{"uri":"file:///fine"},{"uri":%q}]}`, uri))
			if valid && (asked != 1 || !strings.Contains(response, uri)) ||
				!valid && (asked != 3 || !strings.Contains(response, server.ErrBadAnswer.Error())) {
				t.Errorf("%q, modern: %v: %d questions, %s", uri, modern, asked, response)
			}
		}
	}
}

func TestAFormIsAStruct(t *testing.T) {
	s := quiet()
	server.AddTool(s, mcp.Tool{Name: "ask"}, func(ctx context.Context, _ struct{}) (string, error) {
		return server.Elicit[string](ctx, "When?")
	})
	c := mcptest.Dial(t, s)
	must.CheckFails(t, must.Err(client.CallTool[string](t.Context(), c, "ask", nil)),
		"a form must be a struct whose fields are strings, numbers or booleans, not string")
}

const aForm = `{"message":"Who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}`

// A raw question has the answer of the client as it is, in every revision that has it, and also if middleware asks.
func TestRawQuestionsHaveTheAnswerOfTheClient(t *testing.T) {
	ask := func(ctx context.Context) (string, error) {
		if !server.InputCapabilities(ctx).Elicitation.SupportsForm() {
			return `"declined"`, nil // before 2025-06-18
		}
		answer, err := server.RequestInput(ctx, mcp.MethodElicit, json.RawMessage(aForm))
		return string(answer), err
	}
	mcptest.Everywhere(t, func() *server.Server {
		s := &server.Server{}
		server.AddTool(s, mcp.Tool{Name: "ask"}, func(ctx context.Context, _ struct{}) (string, error) { return ask(ctx) })
		server.AddTool(s, mcp.Tool{Name: "plain"}, func(context.Context, struct{}) (string, error) { return "", nil })
		s.Middleware = []call.Middleware{func(next call.Handler) call.Handler {
			return func(ctx context.Context, c *call.Call) (any, error) {
				if c.Method() != mcp.MethodCallTool || c.Name() != "plain" {
					return next(ctx, c)
				}
				answer, err := ask(ctx)
				if err != nil {
					return nil, err
				}
				return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(answer)}}, nil
			}
		}}
		return s
	}, func(t *testing.T, c *client.Client) {
		for _, tool := range []string{"ask", "plain"} {
			must.CheckContains(t, must.Get(client.CallTool[string](t.Context(), c, tool, nil))(t), "decline")
		}
	}, func(d *client.Dialer) {
		d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
		}
	})
}

func TestRawQuestionsThatTheClientCannotAnswerAreErrors(t *testing.T) {
	s := &server.Server{}
	var err error
	server.AddTool(s, mcp.Tool{Name: "ask"}, func(ctx context.Context, in struct{ Method, Params string }) (string, error) {
		_, err = server.RequestInput(ctx, in.Method, json.RawMessage(in.Params))
		return "", nil
	})
	var capability *call.CapabilityError
	c := mcptest.Dial(t, s, mcptest.WithRevision(mcp.V20251125))
	for _, test := range []struct{ method, params, want string }{
		{mcp.MethodElicit, aForm, "elicitation"},
		{mcp.MethodElicit, `{"mode":"url","url":"https://example.com","message":""}`, "elicitation"},
		{mcp.MethodCreateMessage, `{"messages":[],"maxTokens":1}`, "sampling"},
		{mcp.MethodListRoots, `{}`, "roots"},
		{mcp.MethodListRoots, `[]`, "must be a JSON object"},
		{"ping", `{}`, "must be elicitation/create"},
	} {
		must.Get(c.CallTool(t.Context(), "ask", map[string]string{"Method": test.method, "Params": test.params}))(t)
		must.CheckThat(t, err != nil && strings.Contains(err.Error(), test.want) &&
			errors.As(err, &capability) == !strings.Contains(test.want, "must"),
			"%s %s: %v", test.method, test.params, err)
	}
	_, err = server.RequestInput(t.Context(), mcp.MethodListRoots, nil)
	must.CheckEqual(t, errors.Is(err, call.ErrNoCall), true, err)
}

// A session receives log messages and notifications after the call, and can be asked for its roots.
func TestASessionOutlivesItsCall(t *testing.T) {
	s := &server.Server{}
	sessions := make(chan *server.Session, 1)
	server.AddTool(s, mcp.Tool{Name: "keep"}, func(ctx context.Context, _ struct{}) (string, error) {
		must.Check(t, server.Log(ctx, mcp.LoggingMessageParams{Level: mcp.LevelError, Data: json.RawMessage(`"during"`)}))
		sessions <- server.SessionOf(ctx)
		return "", nil
	})
	logged := make(chan string, 2)
	with := func(d *client.Dialer) {
		d.OnLog = func(_ context.Context, m mcp.LoggingMessageParams) { logged <- string(m.Data) }
		d.Roots = func(context.Context) ([]mcp.Root, error) { return []mcp.Root{{URI: "file:///a"}}, nil }
	}
	c := mcptest.Dial(t, s, mcptest.WithRevision(mcp.V20251125), with)
	must.Get(c.CallTool(t.Context(), "keep", nil))(t)
	must.CheckEqual(t, <-logged, `"during"`)
	session := <-sessions
	must.CheckEqual(t, session.ID() != "", true)
	must.Check(t, session.Log(mcp.LoggingMessageParams{Level: mcp.LevelDebug, Data: json.RawMessage(`"not wanted"`)}))
	must.Check(t, session.Log(mcp.LoggingMessageParams{Level: mcp.LevelError, Data: json.RawMessage(`"after"`)}))
	must.CheckEqual(t, <-logged, `"after"`)
	if err := session.Log(mcp.LoggingMessageParams{Level: mcp.LevelError, Data: json.RawMessage(`{`)}); err == nil {
		t.Error("Log sends data that is no JSON")
	}
	if err := session.Notify("notifications/x", json.RawMessage(`[]`)); err == nil {
		t.Error("Notify sends params that are no object")
	}
	roots := must.Get(session.RequestInput(t.Context(), mcp.MethodListRoots, nil))(t)
	must.CheckContains(t, string(roots), "file:///a")
	_, err := session.RequestInput(t.Context(), mcp.MethodCreateMessage, json.RawMessage(`{}`))
	must.CheckEqual(t, errors.As(err, new(*call.CapabilityError)), true, err)

	modern := mcptest.Dial(t, s, with)
	must.Get(modern.CallTool(t.Context(), "keep", nil))(t)
	none := <-sessions
	must.CheckEqual(t, none == nil && none.ID() == "" && none.Notify("x", nil) == nil, true)
	_, err = none.RequestInput(t.Context(), mcp.MethodListRoots, nil)
	must.CheckEqual(t, errors.Is(err, server.ErrCannotAsk), true, err)
}

// A question whose context outlives its call ends with the call.
func TestARawQuestionEndsWithItsCall(t *testing.T) {
	s := &server.Server{}
	asked, ended := make(chan struct{}), make(chan error)
	server.AddTool(s, mcp.Tool{Name: "ask"}, func(ctx context.Context, _ struct{}) (string, error) {
		go func() {
			_, err := server.RequestInput(context.WithoutCancel(ctx), mcp.MethodElicit, json.RawMessage(aForm))
			ended <- err
		}()
		<-asked
		return "", nil
	})
	c := mcptest.Dial(t, s, mcptest.WithRevision(mcp.V20251125), func(d *client.Dialer) {
		d.Elicit = func(ctx context.Context, _ *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			close(asked)
			<-ctx.Done() // until the server gives up
			return nil, ctx.Err()
		}
	})
	must.Get(c.CallTool(t.Context(), "ask", nil))(t)
	err := <-ended
	must.CheckEqual(t, errors.Is(err, call.ErrCallDone), true, err)
}
