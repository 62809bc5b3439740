package mock

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/check/yamldoc"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// yamlMock returns the mock of a YAML text.
func yamlMock(t testing.TB, text string) *Mock {
	t.Helper()
	d := must.Get(yamldoc.Parse("mock.yaml", []byte(text)))(t)
	m := must.Get(fromYAML(d, slog.New(slog.DiscardHandler)))(t)
	return m
}

const weather = `
name: weather
instructions: Ask for the weather.
tools:
  - name: forecast
    description: Tells the weather.
    inputSchema:
      type: object
      properties: {city: {type: string}, days: {type: integer}}
      required: [city]
    responses:
      - when: {city: Paris, days: 2}
        text: Two sunny days in ${city}.
      - when: {city: Atlantis}
        text: There is no ${city}.
        isError: true
      - when: {city: Nowhere}
        error: {code: -32000, message: "no weather in ${city}", data: {city: "${city}"}}
      - when: {city: Once}
        times: 1
        text: the first
      - when: {city: Once}
        text: a later one
      - when: {city: Rome}
        structuredContent: {city: "${city}", days: "${days}", literal: "$${city} ${unknown}"}
  - name: echo
  - name: book
    responses:
      - steps:
          - {progress: 1, total: 2, message: "half"}
          - {log: {state: started}, level: warning, logger: booking}
          - elicit: When?
            schema: {type: object, properties: {day: {type: string}}, required: [day]}
        text: Booked for ${day}.
resources:
  - uri: docs://guide
    mimeType: text/markdown
    text: "# Guide"
  - uri: docs://logo
    responses:
      - blob: aGk=
templates:
  - uriTemplate: docs://pages/{page}
    complete: {page: [intro, install]}
    responses:
      - when: {page: intro}
        text: The page ${page}.
prompts:
  - name: review
    arguments: [{name: code, required: true}]
    complete: {code: [go, gopher]}
    text: Review ${code}.
`

func TestAFileServesEveryRevisionOnEveryTransport(t *testing.T) {
	mcptest.Everywhere(t, func() *server.Server {
		return yamlMock(t, weather).Server()
	}, func(t *testing.T, c *client.Client) {
		ctx := t.Context()
		for arguments, want := range map[string]string{
			`{"city":"Paris","days":2.0}`: "Two sunny days in Paris.",
			`{"city":"Atlantis"}`:         "There is no Atlantis.",
		} {
			result, err := c.CallTool(ctx, "forecast", json.RawMessage(arguments))
			must.CheckThat(t, err == nil && textIn(result.Content) == want &&
				result.IsError == strings.Contains(want, "no "), "%s: got %+v, %v", arguments, result, err)
		}
		_, err := c.CallTool(ctx, "forecast", map[string]any{"city": "Nowhere"})
		wire := new(jsonrpc.Error)
		if !errors.As(err, &wire) || wire.Code != -32000 || wire.Message != "no weather in Nowhere" ||
			string(wire.Data) != `{"city":"Nowhere"}` {
			t.Errorf("got %v, data %s", err, wire.Data)
		}
		result := must.Get(c.CallTool(ctx, "forecast", map[string]any{"city": 1}))(t)
		must.CheckThat(t, result.IsError, "invalid arguments: got %+v", result)
		if result, err := c.CallTool(ctx, "echo", map[string]any{"a": 1}); err != nil ||
			textIn(result.Content) != `{"a":1}` {
			t.Errorf("echo: got %+v, %v", result, err)
		}
		for uri, want := range map[string]string{"docs://guide": "# Guide", "docs://pages/intro": "The page intro."} {
			read, err := c.ReadResource(ctx, uri)
			must.CheckThat(t, err == nil && len(read.Contents) == 1 && read.Contents[0].Text == want &&
				read.Contents[0].URI == uri, "%s: got %+v, %v", uri, read, err)
		}
		read := must.Get(c.ReadResource(ctx, "docs://logo"))(t)
		must.CheckEqual(t, string(read.Contents[0].Blob), "hi", read)
		got := must.Get(c.GetPrompt(ctx, "review", map[string]string{"code": "x"}))(t)
		must.CheckEqual(t, textIn([]mcp.Content{got.Messages[0].Content}), "Review x.", got)
	})
}

func textIn(content []mcp.Content) string {
	if len(content) == 0 {
		return ""
	}
	text, _ := content[0].(*mcp.TextContent)
	if text == nil {
		return ""
	}
	return text.Text
}

func TestAResponseIsUsedAsOftenAsItsTimesAllow(t *testing.T) {
	c := mcptest.Dial(t, yamlMock(t, weather).Server())
	for i, want := range []string{"the first", "a later one", "a later one"} {
		must.CheckEqual(t,
			must.Get(client.CallTool[string](t.Context(), c, "forecast", map[string]any{"city": "Once"}))(t), want, i)
	}
}

func TestReferencesKeepTheTypeInStructuredContent(t *testing.T) {
	c := mcptest.Dial(t, yamlMock(t, weather).Server())
	result, err := c.CallTool(t.Context(), "forecast", map[string]any{"city": `Ro"me`, "days": 3})
	must.That(t, err != nil, "got %+v", result)
	result, err = c.CallTool(t.Context(), "forecast", map[string]any{"city": "Rome", "days": 3})
	must.Do(t, err)
	if got, want := string(result.StructuredContent),
		`{"city":"Rome","days":3,"literal":"${city} ${unknown}"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestARequestWithoutAResponseIsAnErrorThatNamesTheOthers(t *testing.T) {
	var log strings.Builder
	d := must.Get(yamldoc.Parse("mock.yaml", []byte(weather)))(t)
	m := must.Get(fromYAML(d, slog.New(slog.NewTextHandler(&log, nil))))(t)
	c := mcptest.Dial(t, m.Server())
	_, err := c.CallTool(t.Context(), "forecast", map[string]any{"city": "Oslo"})
	wire := new(jsonrpc.Error)
	if !errors.As(err, &wire) || wire.Code != jsonrpc.CodeInvalidParams ||
		!strings.Contains(wire.Message,
			`no response to tools/call forecast for these arguments; there are responses for {"city":"Paris",`+
				`"days":2}, {"city":"Atlantis"}`) ||
		!strings.Contains(string(wire.Data), `"available":["{\"city\":\"Paris\",\"days\":2}"`) {
		t.Errorf("got %v\n%s", err, wire.Data)
	}
	must.CheckContains(t, log.String(), `{\"city\":\"Oslo\"}`, "the log is")
}

func TestLatencyDelaysTheResponse(t *testing.T) {
	const slow = "latency: 3s\ntools:\n  - name: wait\n    responses:\n      - {when: {how: late}, latency: 1m, text: late}\n" +
		"      - text: soon\n"
	synctest.Test(t, func(t *testing.T) {
		m := yamlMock(t, slow)
		c := mcptest.Dial(t, m.Server())
		for how, want := range map[string]time.Duration{"late": time.Minute, "soon": 3 * time.Second} {
			start := time.Now()
			got, err := client.CallTool[string](t.Context(), c, "wait", map[string]any{"how": how},
				client.WithTimeout(time.Hour))
			took := time.Since(start)
			must.CheckThat(t, err == nil && got == how && took == want, "%s: got %q, %v after %v", how, got, err, took)
		}
		start := time.Now()
		must.Check(t, c.Ping(t.Context()))
		must.CheckEqual(t, time.Since(start), 3*time.Second, "time of another request")
	})
}

func TestStepsReportLogAndAsk(t *testing.T) {
	for _, revision := range []mcp.Revision{mcp.V20250618, mcp.V20251125, mcp.V20260728} {
		t.Run(string(revision), func(t *testing.T) {
			logs := make(chan mcp.LoggingMessageParams, 4)
			c := mcptest.DialHTTP(t, yamlMock(t, weather).Server(), mcptest.WithRevision(revision),
				func(d *client.Dialer) {
					d.OnLog = func(_ context.Context, m mcp.LoggingMessageParams) { logs <- m }
					d.Elicit = func(_ context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
						must.CheckEqual(t, form.Message, "When?", form)
						return mcp.AcceptElicit(map[string]any{"day": "Tuesday"})
					}
				})
			var reports []string
			got, err := client.CallTool[string](t.Context(), c, "book", nil, client.WithLogLevel(mcp.LevelInfo),
				client.WithProgress(func(_, _ float64, message string) { reports = append(reports, message) }))
			must.CheckThat(t, err == nil && got == "Booked for Tuesday.", "got %q, %v", got, err)
			must.CheckThat(t, len(reports) == 1 && reports[0] == "half", "reports: %q", reports)
			m := <-logs
			must.CheckThat(t, m.Level == mcp.LevelWarning && m.Logger == "booking" &&
				string(m.Data) == `{"state":"started"}`, "got %+v", m)
		})
	}
}

func TestADeclinedQuestionIsAnErrorOfTheTool(t *testing.T) {
	c := mcptest.Dial(t, yamlMock(t, weather).Server(), func(d *client.Dialer) {
		d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
		}
	})
	result, err := c.CallTool(t.Context(), "book", nil)
	must.CheckThat(t, err == nil && result.IsError && textIn(result.Content) == "the user declined",
		"got %+v, %v", result, err)
}

func TestMistakesOfAFileHaveTheirLines(t *testing.T) {
	for text, want := range map[string][]string{
		"tools:\n  - nam: x\n": {"mock.yaml:2:5: tools/0/name",
			"mock.yaml:2:5: tools/0/nam"},
		"tools:\n  - name: x\n    responses: []\n": {"mock.yaml:3:5: tools/0/responses"},
		"tools:\n  - name: x\n    responses:\n      - {}": {"mock.yaml:4:9: tools/0/responses/0: the " +
			"response must have either an error or one of text, content, structuredContent"},
		"tools: [{name: x, responses: [{text: a, error: {code: 1, message: e}}]}]": {"must have either an error"},
		"tools: [{name: x, responses: [{blob: a}]}]":                               {"blob has no effect here"},
		"tools: [{name: x, inputSchema: {type: 5}}]":                               {"tools/0/inputSchema: schema"},
		"tools: [{name: x, inputSchema: {type: array}}]":                           {`type must be "object"`},
		"tools: [{name: x, outputSchema: {type: object, required: [a]}, responses: [{structuredContent: {b: " +
			"1}}]}]": {"does not match the output schema"},
		"tools: [{name: x}, {name: x}]":                          {`tools/1`},
		"tools: [{name: x, responses: [{latency: 5, text: a}]}]": {"tools/0/responses/0/latency"},
		"tools: [{name: x, responses: [{text: a, steps: [{elicit: a, schema: {type: " +
			"array}}]}]}]": {"steps/0/schema"},
		"tools: [{name: x, responses: [{text: a, steps: [{wait: 1s, log: a}]}]}]": {"steps/0"},
		"tools: [{name: x, responses: [{content: [{kind: text}]}]}]":              {"tools/0/responses/0"},
		"resources: [{uri: 'a:b'}]":                                               {"responses or text is missing"},
		"resources: [{uri: b, text: x}]":                                          {"the URI must begin with a scheme"},
		"resources: [{uri: 'a:b', blob: '?'}]":                                    {"blob must be base64"},
		"templates: [{uriTemplate: 'a:{b', text: x}]":                             {"templates/0"},
		"templates: [{uriTemplate: 'a:{/b*}', text: x}]":                          {"templates/0: template"},
		"prompts: [{name: a, complete: {b: [c]}, text: x}]":                       {"prompts/0"},
		"- a": {"expected object"},
	} {
		d, err := yamldoc.Parse("mock.yaml", []byte(text))
		if err == nil {
			_, err = fromYAML(d, slog.New(slog.DiscardHandler))
		}
		for _, want := range want {
			must.CheckFails(t, err, want, text)
		}
	}
}
