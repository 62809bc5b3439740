package mcptest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// kinds returns the type of each block, or its text.
func kinds(blocks []mcp.Content) string {
	var all []string
	for _, b := range blocks {
		switch b := b.(type) {
		case *mcp.TextContent:
			all = append(all, fmt.Sprintf("%q", b.Text))
		case *mcp.ImageContent:
			all = append(all, fmt.Sprintf("image %s %v", b.MimeType, b.Data))
		case *mcp.AudioContent:
			all = append(all, fmt.Sprintf("audio %s %v", b.MimeType, b.Data))
		case *mcp.EmbeddedResource:
			all = append(all, fmt.Sprintf("resource %s %s %q %v", b.Resource.URI, b.Resource.MimeType, b.Resource.Text,
				b.Resource.Blob))
		case *mcp.ResourceLink:
			all = append(all, fmt.Sprintf("link %s %s", b.URI, b.Name))
		default:
			all = append(all, fmt.Sprintf("%T", b))
		}
	}
	return strings.Join(all, "\n")
}

// Every kind of content arrives from tools and in prompts, in its order and with its roles. Older clients receive a
// text in place of what their revision does not have.
func TestEveryKindOfContentArrives(t *testing.T) {
	blocks := []mcp.Content{
		mcp.Text("text"), mcp.Image([]byte{1, 2, 3}, "image/png"), mcp.Audio([]byte{4, 5}, "audio/wav"),
		&mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "file:///a.txt", MimeType: "text/plain", Text: "a"}},
		&mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "file:///b", Blob: []byte{6}}},
		&mcp.ResourceLink{URI: "file:///c.txt", Name: "c"}, mcp.Text("last"),
	}
	carrying := func() *server.Server {
		s := newServer()
		server.AddTool(s, mcp.Tool{Name: "blocks"}, func(context.Context, struct{}) ([]mcp.Content, error) {
			return blocks, nil
		})
		server.AddPrompt(s, mcp.Prompt{Name: "blocks"}, func(context.Context, struct{}) (*mcp.GetPromptResult, error) {
			result := &mcp.GetPromptResult{}
			for i, b := range blocks {
				role := []mcp.Role{mcp.RoleUser, mcp.RoleAssistant}[i%2]
				result.Messages = append(result.Messages, mcp.PromptMessage{Role: role, Content: b})
			}
			return result, nil
		})
		return s
	}
	everywhere(t, carrying, func(t *testing.T, c *client.Client) {
		want := []string{`"text"`, "image image/png [1 2 3]", "audio audio/wav [4 5]",
			`resource file:///a.txt text/plain "a" []`, `resource file:///b  "" [6]`, "link file:///c.txt c", `"last"`}
		if c.Revision() < mcp.V20250326 {
			want[2] = `"[audio, audio/wav, 2 bytes: this revision of the protocol cannot carry it]"`
		}
		if c.Revision() < mcp.V20250618 {
			want[5] = `"c: file:///c.txt"`
		}
		result := must.Get(c.CallTool(t.Context(), "blocks", nil))(t)
		must.CheckEqual(t, kinds(result.Content), strings.Join(want, "\n"))
		prompt := must.Get(c.GetPrompt(t.Context(), "blocks", nil))(t)
		var got []mcp.Content
		for i, m := range prompt.Messages {
			must.CheckEqual(t, m.Role == mcp.RoleUser, i%2 == 0, i)
			got = append(got, m.Content)
		}
		must.CheckEqual(t, kinds(got), strings.Join(want, "\n"))
	})
}

// A definition arrives as it was registered, without what the revision does not have.
func TestDefinitionsOfToolsArrive(t *testing.T) {
	image := mcp.Icons{{Src: "data:image/png;base64,AA==", MimeType: "image/png", Sizes: []string{"any"}}}
	const schema = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","$defs":{"n":{"type":` +
		`"integer","minimum":1}},"properties":{"n":{"$ref":"#/$defs/n"}},"additionalProperties":false}`
	tool := mcp.Tool{
		Name: "full", Title: "Full", Description: "Has every field.", InputSchema: json.RawMessage(schema),
		OutputSchema: json.RawMessage(`{"type":"object"}`), Icons: image,
		Annotations: &mcp.ToolAnnotations{Title: "T", ReadOnlyHint: true, DestructiveHint: ptr(false),
			IdempotentHint: true, OpenWorldHint: ptr(false)},
		Meta: mcp.Meta{"com.example/a": json.RawMessage(`{"b":[1]}`)},
	}
	registered := func() *server.Server {
		s := &server.Server{Name: "s", Version: "1"}
		must.Do(t, s.RegisterTool(tool, func(context.Context, json.RawMessage) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{StructuredContent: json.RawMessage(`{}`)}, nil
		}))
		return s
	}
	everywhere(t, registered, func(t *testing.T, c *client.Client) {
		want := tool
		if c.Revision() < mcp.V20250326 {
			want.Annotations = nil
		}
		if c.Revision() < mcp.V20250618 {
			want.Title, want.OutputSchema, want.Meta = "", nil, nil
		}
		if c.Revision() < mcp.V20251125 {
			want.Icons = nil
		}
		must.CheckEqual(t, cmp.Diff([]mcp.Tool{want}, all(t, c.Tools(t.Context()))), "")
		_, err := client.CallTool[json.RawMessage](t.Context(), c, "full", map[string]int{"n": 1})
		must.Check(t, err)
		result, err := c.CallTool(t.Context(), "full", map[string]int{"n": 0})
		must.CheckThat(t, err == nil && result.IsError,
			"an argument that does not match its definition: %+v, %v", result, err)
	})
}

// What a server asks for reaches the model, and what the model answers the handler. A message before 2025-11-25 has one
// block, no block of 2024-11-05 is audio, and since 2025-11-25 includeContext needs a declaration.
func TestSamplingArrivesAsItWasSent(t *testing.T) {
	audio, image := mcp.Audio([]byte{4}, "audio/wav"), mcp.Image([]byte{1}, "image/png")
	asked := mcp.CreateMessageParams{
		Messages: []mcp.SamplingMessage{
			{Role: mcp.RoleUser, Content: []mcp.Content{mcp.Text("What is this?"), image}},
			{Role: mcp.RoleAssistant, Content: []mcp.Content{mcp.Text("A dot.")}},
			{Role: mcp.RoleUser, Content: []mcp.Content{audio}},
		},
		ModelPreferences: &mcp.ModelPreferences{Hints: []mcp.ModelHint{{Name: "small"}, {Name: "large"}},
			CostPriority: ptr(0.1), SpeedPriority: ptr(0.2), IntelligencePriority: ptr(1.0)},
		SystemPrompt: "Be brief.", IncludeContext: mcp.IncludeThisServer, Temperature: ptr(0.5), MaxTokens: 7,
		StopSequences: []string{"END"}, Metadata: json.RawMessage(`{"provider":{"x":1}}`),
	}
	text := "[audio, audio/wav, 1 bytes: this revision of the protocol cannot carry it]"
	for name, answer := range map[string]struct{ blocks, older, oldest []mcp.Content }{
		"an image": {blocks: []mcp.Content{image}, older: []mcp.Content{image}, oldest: []mcp.Content{image}},
		"audio": {blocks: []mcp.Content{audio}, older: []mcp.Content{audio},
			oldest: []mcp.Content{mcp.Text(text)}},
		"several texts and an image": {blocks: []mcp.Content{mcp.Text("a"), image, mcp.Text("b")},
			older: []mcp.Content{mcp.Text("ab")}, oldest: []mcp.Content{mcp.Text("ab")}},
		"several images": {blocks: []mcp.Content{image, audio}, older: []mcp.Content{image},
			oldest: []mcp.Content{mcp.Text(text)}},
		"nothing": {blocks: []mcp.Content{}, older: []mcp.Content{mcp.Text("")}, oldest: []mcp.Content{mcp.Text("")}},
	} {
		var received *mcp.CreateMessageParams
		var result *mcp.CreateMessageResult
		sampling := func() *server.Server {
			s := newServer()
			server.AddTool(s, mcp.Tool{Name: "sample"}, func(ctx context.Context, _ struct{}) (_ string, err error) {
				result, err = server.Sample(ctx, asked)
				return "", err
			})
			return s
		}
		t.Run(name, func(t *testing.T) {
			everywhere(t, sampling, func(t *testing.T, c *client.Client) {
				must.Get(client.CallTool[string](t.Context(), c, "sample", nil))(t)
				want := asked
				wantResult := mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: "m", StopReason: mcp.StopMaxTokens,
					Content: answer.blocks}
				if c.Revision() >= mcp.V20251125 {
					want.IncludeContext = ""
				} else {
					first := want.Messages[0].Content
					want.Messages = append([]mcp.SamplingMessage{{Role: mcp.RoleUser, Content: first[:1]},
						{Role: mcp.RoleUser, Content: first[1:]}}, want.Messages[1:]...)
					wantResult.Content = answer.older
				}
				if c.Revision() < mcp.V20250326 {
					want.Messages[3].Content, wantResult.Content = []mcp.Content{mcp.Text(text)}, answer.oldest
				}
				must.CheckEqual(t, cmp.Diff(&want, received), "")
				must.CheckEqual(t, cmp.Diff(&wantResult, result), "")
			}, func(d *client.Dialer) {
				d.Sample = func(_ context.Context, p *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
					received = p
					return &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: "m", StopReason: mcp.StopMaxTokens,
						Content: answer.blocks}, nil
				}
			})
		})
	}
}

// Every kind of field reaches the program. In 2025-06-18 the titles of choices are enumNames, and there is no multiple
// choice: forms that require one cannot be asked.
func TestFormsArriveAsTheyWereSent(t *testing.T) {
	const (
		fields = `"mail":{"type":"string","title":"Mail","description":"Yours","minLength":3,"format":"email"},` +
			`"n":{"type":"number","minimum":0.5,"maximum":9},"i":{"type":"integer","default":3},` +
			`"b":{"type":"boolean","default":false},"e":{"type":"string","enum":["x","y"]},` +
			`"old":{"type":"string","enum":["1"],"enumNames":["One"]}`
		titled   = `,"t":{"type":"string","oneOf":[{"const":"a","title":"A"},{"const":"b","title":"B"}]}`
		named    = `,"t":{"type":"string","enum":["a","b"],"enumNames":["A","B"]}`
		multiple = `,"m":{"type":"array","items":{"type":"string","enum":["p","q"]},"minItems":1},` +
			`"mt":{"type":"array","items":{"anyOf":[{"const":"p","title":"P"}]},"maxItems":1}`
	)
	form := func(fields string) string {
		return `{"type":"object","properties":{` + fields + `},"required":["mail"]}`
	}
	const choosing = `"c":{"type":"array","items":{"type":"string","enum":["p","q"]},"default":["p"]}`
	required := func(fields string) string {
		return strings.Replace(form(fields+","+choosing), `["mail"]`, `["mail","c"]`, 1)
	}
	var received string
	asking := func() *server.Server {
		s := newServer()
		server.AddTool(s, mcp.Tool{Name: "ask"}, func(ctx context.Context, in struct {
			Form string `json:"form"`
		}) (string, error) {
			content, err := server.ElicitForm(ctx, "Who?", json.RawMessage(in.Form))
			if errors.Is(err, errors.ErrUnsupported) {
				return "unsupported", nil
			}
			return string(content), err
		})
		return s
	}
	everywhere(t, asking, func(t *testing.T, c *client.Client) {
		for _, tc := range []struct{ sent, older string }{
			{fields, fields}, {fields + titled, fields + named}, {fields + titled + multiple, fields + named}, {fields, ""},
		} {
			sent, answer := form(tc.sent), `{"mail":"a@b.example","i":3,"b":false}`
			if tc.older == "" {
				sent, answer = required(tc.sent), `{"mail":"a@b.example","i":3,"b":false,"c":["p"]}`
			}
			want := sent
			if c.Revision() < mcp.V20251125 {
				want = form(tc.older)
			}
			if c.Revision() < mcp.V20250618 || c.Revision() < mcp.V20251125 && tc.older == "" {
				want, answer = "", "unsupported"
			}
			received = ""
			got, err := client.CallTool[string](t.Context(), c, "ask", map[string]string{"form": sent})
			must.CheckThat(t, err == nil && got == answer && received == want,
				"%s: %s, %v; the program received\n%s, want\n%s", tc.sent, got, err, received, want)
		}
	}, func(d *client.Dialer) {
		d.Elicit = func(_ context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			must.CheckEqual(t, p.Message, "Who?")
			received = string(p.RequestedSchema)
			return mcp.AcceptElicit(map[string]string{"mail": "a@b.example"})
		}
	})
}

// The handler of a session learns the code of a refusal. In 2026-07-28 an answer is no error, so that the call ends at
// the client with its own error.
func TestRefusedQuestionsAreErrors(t *testing.T) {
	refusal := &jsonrpc.Error{Code: -1, Message: "the user has rejected the request"}
	asking := func() *server.Server {
		s := newServer()
		server.AddTool(s, mcp.Tool{Name: "sample"}, func(ctx context.Context, _ struct{}) (string, error) {
			_, err := server.Sample(ctx, mcp.CreateMessageParams{MaxTokens: 1, Messages: []mcp.SamplingMessage{}})
			if answer := new(call.AnswerError); errors.As(err, &answer) {
				return fmt.Sprint("refused with ", answer.Err.Code), nil
			}
			return "", err
		})
		server.AddTool(s, mcp.Tool{Name: "roots"}, func(ctx context.Context, _ struct{}) (string, error) {
			roots, err := server.Roots(ctx)
			return fmt.Sprint(len(roots)), err
		})
		return s
	}
	everywhere(t, asking, func(t *testing.T, c *client.Client) {
		text, err := client.CallTool[string](t.Context(), c, "sample", nil)
		reported := new(jsonrpc.Error)
		switch {
		case !c.Revision().Modern() && (err != nil || text != "refused with -1"):
			t.Errorf("%q, %v", text, err)
		case c.Revision().Modern() && (err == nil || !strings.Contains(err.Error(), refusal.Message) ||
			errors.As(err, &reported) || errors.Is(err, call.ErrInvalidResponse)): // of which the server is no cause
			t.Errorf("%v", err)
		}
		must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, "roots", nil))(t), "0")
	}, func(d *client.Dialer) {
		d.Sample = func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
			return nil, refusal
		}
		d.Roots = func(context.Context) ([]mcp.Root, error) { return nil, nil }
	})
}
