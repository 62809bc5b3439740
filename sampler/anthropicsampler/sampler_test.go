package anthropicsampler_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/sampler"
	"github.com/parley-mcp/parley/sampler/anthropicsampler"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// endpoint is a Messages API that always returns the same response. It records
// the last request.
type endpoint struct {
	status   int
	response string
	path     string
	key      string
	request  string
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	e.path, e.key, e.request = r.Method+" "+r.URL.Path, r.Header.Get("X-Api-Key"), string(body)
	w.Header().Set("Content-Type", "application/json")
	if e.status != 0 {
		w.WriteHeader(e.status)
	}
	_, _ = io.WriteString(w, e.response)
}

func (e *endpoint) sampler(t *testing.T) *anthropicsampler.Sampler {
	s := httptest.NewServer(e)
	t.Cleanup(s.Close)
	client := anthropic.NewClient(option.WithBaseURL(s.URL), option.WithAPIKey("key"), option.WithMaxRetries(0),
		option.WithHTTPClient(s.Client()))
	return &anthropicsampler.Sampler{Client: &client, Models: sampler.Models{{Name: "claude-haiku-4-5"},
		{Name: "claude-sonnet-4-5"}}}
}

// said is the response of the API to a question without tools.
const said = `{"id":"msg_01","type":"message","role":"assistant","model":"claude-haiku-4-5-20251001",` +
	`"content":[{"type":"text","text":"Hello."}],` +
	`"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":3}}`

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
		SystemPrompt: "Be brief.", MaxTokens: 100, Temperature: new(0.5), StopSequences: []string{"END"},
		IncludeContext:   mcp.IncludeThisServer,
		Metadata:         json.RawMessage(`{"user_id":"of the server"}`),
		ModelPreferences: &mcp.ModelPreferences{Hints: []mcp.ModelHint{{Name: "sonnet"}}},
		Tools: []mcp.Tool{{Name: "weather", Description: "Tells the weather",
			InputSchema: json.RawMessage(schema)}, {Name: "now"}},
		ToolChoice: &mcp.ToolChoice{Mode: mcp.ToolChoiceRequired},
		Messages: []mcp.SamplingMessage{
			user(&mcp.TextContent{Text: "What is on the picture?"},
				&mcp.ImageContent{MimeType: "image/png", Data: []byte("PNG")}),
			{Role: mcp.RoleAssistant, Content: []mcp.Content{&mcp.TextContent{Text: "I look."},
				&mcp.ToolUseContent{ID: "a", Name: "weather", Input: json.RawMessage(`{"city":"Oslo"}`)},
				&mcp.ToolUseContent{ID: "b", Name: "now"}}},
			user(
				&mcp.ToolResultContent{ToolUseID: "a", Content: []mcp.Content{
					&mcp.TextContent{Text: "rain"}, &mcp.ImageContent{MimeType: "image/jpeg", Data: []byte("JPEG")},
					&mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "lib://a", Text: "embedded"}},
					&mcp.ResourceLink{URI: "lib://b", Name: "b"},
				}},
				&mcp.ToolResultContent{ToolUseID: "b", IsError: true, StructuredContent: json.RawMessage(`{"code":7}`)},
			),
		},
	})
	must.Do(t, err)
	wantJSON(t, e.request, `{
		"model":"claude-sonnet-4-5","max_tokens":100,"temperature":0.5,"stop_sequences":["END"],
		"system":[{"type":"text","text":"Be brief."}],
		"tools":[{"name":"weather","description":"Tells the weather","input_schema":`+schema+
		`},{"name":"now","input_schema":{"type":"object"}}],
		"tool_choice":{"type":"any"},
		"messages":[
			{"role":"user","content":[{"type":"text","text":"What is on the picture?"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"UE5H"}}]},
			{"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"a","name":"weather","input":{"city":"Oslo"}},{"type":"tool_use","id":"b","name":"now","input":{}}]},
			{"role":"user","content":[
				{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"rain"},{"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"SlBFRw=="}},{"type":"text","text":"embedded"},{"type":"text","text":"lib://b"}]},
				{"type":"tool_result","tool_use_id":"b","is_error":true,"content":[{"type":"text","text":"{\"code\":7}"}]}]}]}`)
	must.CheckContains(t, e.request, "9007199254740993", "a number of the schema has changed")
	must.CheckEqual(t, e.path, "POST /v1/messages")
	must.CheckEqual(t, e.key, "key")
	must.CheckThat(t, result.Model == "claude-haiku-4-5-20251001" && result.Role == mcp.RoleAssistant &&
		result.StopReason == mcp.StopEndTurn && len(result.Content) == 1 &&
		result.Content[0].(*mcp.TextContent).Text == "Hello.", "the result is %+v", result)
}

func TestRequestWithoutOptionsIsSmall(t *testing.T) {
	e := &endpoint{response: said}
	for mode, choice := range map[mcp.ToolChoiceMode]string{mcp.ToolChoiceAuto: `{"type":"auto"}`, "": `{"type":"auto"}`,
		mcp.ToolChoiceNone: `{"type":"none"}`} {
		params := &mcp.CreateMessageParams{MaxTokens: 1,
			Messages:   []mcp.SamplingMessage{user(&mcp.TextContent{Text: "hi"})},
			ToolChoice: &mcp.ToolChoice{Mode: mode}}
		must.Do(t, must.Err(e.sampler(t).Sample(t.Context(), params)))
		wantJSON(t, e.request,
			`{"model":"claude-haiku-4-5","max_tokens":1,"messages":[{"role":"user","content":[{"type":"text",`+
				`"text":"hi"}]}]}`)
		params.Tools = []mcp.Tool{{Name: "now"}}
		must.Check(t, must.Err(e.sampler(t).Sample(t.Context(), params)))
		must.CheckThat(t, strings.Contains(e.request, `"tool_choice":`+choice), "%q: , %s", mode, e.request)
	}
}

func TestResultHasTextsAndToolUses(t *testing.T) {
	for reason, want := range map[string]string{
		"end_turn": mcp.StopEndTurn, "max_tokens": mcp.StopMaxTokens, "stop_sequence": mcp.StopSequence,
		"tool_use": mcp.StopToolUse, "refusal": "refusal",
	} {
		e := &endpoint{response: `{"id":"msg_01","type":"message","role":"assistant","model":"m","content":[
			{"type":"thinking","thinking":"private","signature":"s"},{"type":"text","text":"Let me see."},
			{"type":"tool_use","id":"toolu_1","name":"weather","input":{"city":"Oslo","n":9007199254740993}}],
			"stop_reason":"` + reason + `","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}`}
		result, err := e.sampler(t).Sample(t.Context(),
			&mcp.CreateMessageParams{MaxTokens: 1, Messages: []mcp.SamplingMessage{user(&mcp.TextContent{Text: "hi"})}})
		must.Do(t, err)
		raw, _ := json.Marshal(result)
		wantJSON(t, string(raw), `{"role":"assistant","model":"m","stopReason":"`+want+
			`","content":[{"type":"text","text":"Let me see."},{"type":"tool_use","id":"toolu_1","name":"weather",`+
			`"input":{"city":"Oslo","n":9007199254740993}}]}`)
		must.CheckContains(t, string(raw), "9007199254740993", "a number has changed")
	}
	e := &endpoint{response: strings.Replace(said, `{"type":"text","text":"Hello."}`, "", 1)}
	result, err := e.sampler(t).Sample(t.Context(),
		&mcp.CreateMessageParams{MaxTokens: 1, Messages: []mcp.SamplingMessage{user(&mcp.TextContent{Text: "hi"})}})
	must.CheckThat(t, err == nil && len(result.Content) == 1, "a message without content is %+v, %v", result, err)
}

func TestContentThatTheAPIDoesNotHaveIsAnError(t *testing.T) {
	e := &endpoint{response: said}
	for want, params := range map[string]*mcp.CreateMessageParams{
		"audio":                           {Messages: []mcp.SamplingMessage{user(&mcp.AudioContent{MimeType: "audio/wav"})}},
		`images of the type "image/tiff"`: {Messages: []mcp.SamplingMessage{user(&mcp.ImageContent{MimeType: "image/tiff"})}},
		"content of the type *mcp.UnknownContent":                       {Messages: []mcp.SamplingMessage{user(&mcp.UnknownContent{Type: "video"})}},
		"content of the type *mcp.AudioContent in the result of a tool": {Messages: []mcp.SamplingMessage{user(&mcp.ToolResultContent{Content: []mcp.Content{&mcp.AudioContent{}}})}},
		"binary resources in the result of a tool":                      {Messages: []mcp.SamplingMessage{user(&mcp.ToolResultContent{Content: []mcp.Content{&mcp.EmbeddedResource{Resource: mcp.ResourceContents{Blob: []byte{1}}}}})}},
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
		response: `{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`}
	params := &mcp.CreateMessageParams{MaxTokens: 1,
		Messages: []mcp.SamplingMessage{user(&mcp.TextContent{Text: "hi"})}}
	_, err := e.sampler(t).Sample(t.Context(), params)
	var reported *anthropic.Error
	must.CheckThat(t, errors.As(err, &reported) && reported.StatusCode == http.StatusTooManyRequests, "%v", err)
	if _, err := new(anthropicsampler.Sampler).Sample(t.Context(), params); err == nil {
		t.Error("a Sampler without a client has answered")
	}
	s := e.sampler(t)
	s.Models = nil
	must.CheckIs(t, must.Err(s.Sample(t.Context(), params)), sampler.ErrNoModels)
}
