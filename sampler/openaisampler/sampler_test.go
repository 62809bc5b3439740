package openaisampler_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/sampler"
	"github.com/parley-mcp/parley/sampler/openaisampler"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// endpoint is a Chat Completions API that always returns the same response. It
// records the last request.
type endpoint struct {
	status   int
	response string
	path     string
	key      string
	request  string
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	e.path, e.key, e.request = r.Method+" "+r.URL.Path, r.Header.Get("Authorization"), string(body)
	w.Header().Set("Content-Type", "application/json")
	if e.status != 0 {
		w.WriteHeader(e.status)
	}
	_, _ = io.WriteString(w, e.response)
}

func (e *endpoint) sampler(t *testing.T) *openaisampler.Sampler {
	s := httptest.NewServer(e)
	t.Cleanup(s.Close)
	client := openai.NewClient(option.WithBaseURL(s.URL+"/v1"), option.WithAPIKey("key"), option.WithMaxRetries(0),
		option.WithHTTPClient(s.Client()))
	return &openaisampler.Sampler{Client: &client, Models: sampler.Models{{Name: "gpt-5-mini"}, {Name: "gpt-5"}}}
}

// completion is a response of the API with a message.
func completion(message, reason string) string {
	return `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"gpt-5-mini-2025-08-07",` +
		`"choices":[{"index":0,"message":` + message +
		`,"logprobs":null,"finish_reason":"` + reason +
		`"}],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}`
}

// said is the response of the API to a question without tools.
var said = completion(`{"role":"assistant","content":"Hello.","refusal":null,"annotations":[]}`, "stop")

// wantJSON compares JSON values.
func wantJSON(t *testing.T, got, want string) {
	t.Helper()
	var a, b any
	must.Do(t, json.Unmarshal([]byte(got), &a), got)
	must.Do(t, json.Unmarshal([]byte(want), &b))
	must.CheckThat(t, reflect.DeepEqual(a, b), "sent %s\nwant %s", got, want)
}

func user(content ...mcp.Content) mcp.SamplingMessage {
	return mcp.SamplingMessage{Role: mcp.RoleUser, Content: content}
}

func TestRequestHasAllThatTheServerSends(t *testing.T) {
	e := &endpoint{response: said}
	schema := `{"type":"object","properties":{"city":{"type":"string","maxLength":9007199254740993}},` +
		`"required":["city"],"additionalProperties":false}`
	result, err := e.sampler(t).Sample(t.Context(), &mcp.CreateMessageParams{
		SystemPrompt: "Be brief.", MaxTokens: 100, Temperature: new(0.5), StopSequences: []string{"END", "STOP"},
		IncludeContext: mcp.IncludeThisServer,
		Metadata:       json.RawMessage(`{"user":"of the server"}`),
		ModelPreferences: &mcp.ModelPreferences{IntelligencePriority: new(1.0),
			Hints: []mcp.ModelHint{{Name: "claude"}, {Name: "mini"}}},
		Tools: []mcp.Tool{{Name: "weather", Description: "Tells the weather",
			InputSchema: json.RawMessage(schema)}, {Name: "now"}},
		ToolChoice: &mcp.ToolChoice{Mode: mcp.ToolChoiceRequired},
		Messages: []mcp.SamplingMessage{
			user(&mcp.TextContent{Text: "What is on the picture?"},
				&mcp.ImageContent{MimeType: "image/png", Data: []byte("PNG")},
				&mcp.AudioContent{MimeType: "audio/mpeg", Data: []byte("MP3")},
				&mcp.AudioContent{MimeType: "audio/wav", Data: []byte("WAV")}),
			{Role: mcp.RoleAssistant, Content: []mcp.Content{&mcp.TextContent{Text: "I look."},
				&mcp.TextContent{Text: "Wait."}, &mcp.ToolUseContent{ID: "a", Name: "weather",
					Input: json.RawMessage(`{"city":"Oslo"}`)}, &mcp.ToolUseContent{ID: "b", Name: "now"}}},
			user(
				&mcp.ToolResultContent{ToolUseID: "a", Content: []mcp.Content{
					&mcp.TextContent{Text: "rain"}, &mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "lib://a",
						Text: "embedded"}}, &mcp.ResourceLink{URI: "lib://b", Name: "b"},
				}},
				&mcp.ToolResultContent{ToolUseID: "b", IsError: true, StructuredContent: json.RawMessage(`{"code":7}`)},
			),
			{Role: mcp.RoleAssistant, Content: []mcp.Content{&mcp.ToolUseContent{ID: "c", Name: "now"}}},
		},
	})
	must.Do(t, err)
	wantJSON(t, e.request, `{
		"model":"gpt-5-mini","max_completion_tokens":100,"temperature":0.5,"stop":["END","STOP"],
		"tools":[{"type":"function","function":{"name":"weather","description":"Tells the weather","parameters":`+
		schema+`}},{"type":"function","function":{"name":"now","parameters":{"type":"object","properties":{}}}}],
		"tool_choice":"required",
		"messages":[
			{"role":"system","content":"Be brief."},
			{"role":"user","content":[{"type":"text","text":"What is on the picture?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,UE5H"}},
				{"type":"input_audio","input_audio":{"data":"TVAz","format":"mp3"}},{"type":"input_audio","input_audio":{"data":"V0FW","format":"wav"}}]},
			{"role":"assistant","content":"I look.\nWait.","tool_calls":[{"id":"a","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Oslo\"}"}},{"id":"b","type":"function","function":{"name":"now","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"a","content":"rain\nembedded\nlib://b"},
			{"role":"tool","tool_call_id":"b","content":"The tool failed: {\"code\":7}"},
			{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"now","arguments":"{}"}}]}]}`)
	must.CheckContains(t, e.request, "9007199254740993", "a number of the schema has changed")
	must.CheckEqual(t, e.path, "POST /v1/chat/completions")
	must.CheckEqual(t, e.key, "Bearer key")
	must.CheckThat(t, result.Model == "gpt-5-mini-2025-08-07" && result.Role == mcp.RoleAssistant &&
		result.StopReason == mcp.StopEndTurn && len(result.Content) == 1 &&
		result.Content[0].(*mcp.TextContent).Text == "Hello.", "the result is %+v", result)
}

func TestRequestForOtherEndpointsHasMaxTokens(t *testing.T) {
	e := &endpoint{response: said}
	s := e.sampler(t)
	s.MaxTokens = true
	params := &mcp.CreateMessageParams{MaxTokens: 7,
		Messages:   []mcp.SamplingMessage{user(&mcp.TextContent{Text: "hi"})},
		ToolChoice: &mcp.ToolChoice{Mode: mcp.ToolChoiceAuto}}
	must.Do(t, must.Err(s.Sample(t.Context(), params)))
	wantJSON(t, e.request, `{"model":"gpt-5-mini","max_tokens":7,"messages":[{"role":"user","content":"hi"}]}`)
	for _, mode := range []mcp.ToolChoiceMode{mcp.ToolChoiceAuto, mcp.ToolChoiceNone} {
		params.Tools, params.ToolChoice = []mcp.Tool{{Name: "now"}}, &mcp.ToolChoice{Mode: mode}
		must.Check(t, must.Err(s.Sample(t.Context(), params)))
		must.CheckThat(t, strings.Contains(e.request, `"tool_choice":"`+string(mode)+`"`), "%s", e.request)
	}
}

func TestResultHasTextsAndToolUses(t *testing.T) {
	const uses = `{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"call_1","type":"function",` +
		`"function":{"name":"weather","arguments":"{\"n\":9007199254740993}"}},{"id":"call_2","type":"function",` +
		`"function":{"name":"now","arguments":""}}]}`
	for _, c := range []struct{ message, reason, want string }{
		{`{"role":"assistant","content":"cut","refusal":null}`, "length",
			`{"role":"assistant","model":"gpt-5-mini-2025-08-07","stopReason":"maxTokens","content":{"type":"text",` +
				`"text":"cut"}}`},
		{uses, "tool_calls",
			`{"role":"assistant","model":"gpt-5-mini-2025-08-07","stopReason":"toolUse",` +
				`"content":[{"type":"tool_use","id":"call_1","name":"weather","input":{"n":9007199254740993}},` +
				`{"type":"tool_use","id":"call_2","name":"now","input":{}}]}`},
		{`{"role":"assistant","content":null,"refusal":"I cannot help."}`, "stop",
			`{"role":"assistant","model":"gpt-5-mini-2025-08-07","stopReason":"refusal","content":{"type":"text",` +
				`"text":"I cannot help."}}`},
		{`{"role":"assistant","content":"","refusal":null}`, "content_filter",
			`{"role":"assistant","model":"gpt-5-mini-2025-08-07","stopReason":"content_filter",` +
				`"content":{"type":"text","text":""}}`},
	} {
		e := &endpoint{response: completion(c.message, c.reason)}
		result, err := e.sampler(t).Sample(t.Context(),
			&mcp.CreateMessageParams{MaxTokens: 1, Messages: []mcp.SamplingMessage{user(&mcp.TextContent{Text: "hi"})}})
		if err != nil {
			t.Error(err)
			continue
		}
		raw, _ := json.Marshal(result)
		wantJSON(t, string(raw), c.want)
	}
}

func TestInvalidResponseIsAnError(t *testing.T) {
	for _, response := range []string{
		`{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[]}`,
		completion(`{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function",`+
			`"function":{"name":"f","arguments":"[1]"}}]}`, "tool_calls"),
		completion(`{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function",`+
			`"function":{"name":"f","arguments":"{\"a\":"}}]}`, "tool_calls"),
	} {
		e := &endpoint{response: response}
		_, err := e.sampler(t).Sample(t.Context(), &mcp.CreateMessageParams{MaxTokens: 1,
			Messages: []mcp.SamplingMessage{user(&mcp.TextContent{Text: "hi"})}})
		must.CheckIs(t, err, openaisampler.ErrInvalidResponse, response)
	}
}

func TestContentThatTheAPIDoesNotHaveIsAnError(t *testing.T) {
	e := &endpoint{response: said}
	assistant := func(c mcp.Content) *mcp.CreateMessageParams {
		return &mcp.CreateMessageParams{Messages: []mcp.SamplingMessage{{Role: mcp.RoleAssistant,
			Content: []mcp.Content{c}}}}
	}
	for want, params := range map[string]*mcp.CreateMessageParams{
		`audio of the type "audio/ogg"`:                                       {Messages: []mcp.SamplingMessage{user(&mcp.AudioContent{MimeType: "audio/ogg"})}},
		`images of the type "text/html"`:                                      {Messages: []mcp.SamplingMessage{user(&mcp.ImageContent{MimeType: "text/html"})}},
		"content of the type *mcp.ToolUseContent in a message of the user":    {Messages: []mcp.SamplingMessage{user(&mcp.ToolUseContent{ID: "a"})}},
		"content of the type *mcp.ImageContent in a message of the assistant": assistant(&mcp.ImageContent{MimeType: "image/png"}),
		"content of the type *mcp.ImageContent in the result of a tool":       {Messages: []mcp.SamplingMessage{user(&mcp.ToolResultContent{Content: []mcp.Content{&mcp.ImageContent{}}})}},
		"binary resources in the result of a tool":                            {Messages: []mcp.SamplingMessage{user(&mcp.ToolResultContent{Content: []mcp.Content{&mcp.EmbeddedResource{Resource: mcp.ResourceContents{Blob: []byte{1}}}}})}},
		`the tool choice "any"`: {Tools: []mcp.Tool{{Name: "t"}},
			ToolChoice: &mcp.ToolChoice{Mode: "any"}},
	} {
		_, err := e.sampler(t).Sample(t.Context(), params)
		var unsupported *sampler.UnsupportedError
		must.CheckThat(t, errors.As(err, &unsupported) && unsupported.What == want && e.request == "",
			"%v, want %s", err, want)
	}
}

func TestErrorOfTheAPIIsReturned(t *testing.T) {
	e := &endpoint{status: http.StatusTooManyRequests,
		response: `{"error":{"message":"slow down","type":"rate_limit","param":null,"code":"rate_limit_exceeded"}}`}
	params := &mcp.CreateMessageParams{MaxTokens: 1,
		Messages: []mcp.SamplingMessage{user(&mcp.TextContent{Text: "hi"})}}
	_, err := e.sampler(t).Sample(t.Context(), params)
	var reported *openai.Error
	must.CheckThat(t, errors.As(err, &reported) && reported.StatusCode == http.StatusTooManyRequests, "%v", err)
	if _, err := new(openaisampler.Sampler).Sample(t.Context(), params); err == nil {
		t.Error("a Sampler without a client has answered")
	}
	s := e.sampler(t)
	s.Models = nil
	must.CheckIs(t, must.Err(s.Sample(t.Context(), params)), sampler.ErrNoModels)
}
