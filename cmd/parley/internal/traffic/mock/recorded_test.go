package mock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/traffic/recording"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// original returns a server whose responses depend on the number of the call.
func original() *server.Server {
	s := &server.Server{Name: "original", Version: "2.0.0", Instructions: "Use it.",
		Info: mcp.Implementation{Title: "Original"}}
	count, asked := 0, 0
	server.AddTool(s, mcp.Tool{Name: "count"}, func(context.Context, struct {
		By int `json:"by"`
	}) (string, error) {
		count++
		return fmt.Sprint("call ", count), nil
	})
	server.AddTool(s, mcp.Tool{Name: "work", Description: "Reports and logs."},
		func(ctx context.Context, _ struct{}) (struct{ Sum int }, error) {
			server.Logger(ctx).Warn("working", "step", 1)
			return struct{ Sum int }{5}, server.Progress(ctx, 1, 2, "half")
		})
	server.AddTool(s, mcp.Tool{Name: "fail"}, func(context.Context, struct{}) (string, error) {
		return "", errors.New("it is broken")
	})
	server.AddTool(s, mcp.Tool{Name: "reject"}, func(context.Context, struct{}) (string, error) {
		return "", &jsonrpc.Error{Code: -32050, Message: "rejected", Data: json.RawMessage(`{"a":1}`)}
	})
	server.AddTool(s, mcp.Tool{Name: "ask"}, func(ctx context.Context, _ struct{}) (string, error) {
		form, err := server.Elicit[struct {
			Day string `json:"day"`
		}](ctx, "When?")
		if err != nil {
			return "", err
		}
		other, err := server.Elicit[struct {
			Time string `json:"time"`
		}](ctx, "At what time on "+form.Day+"?")
		if err != nil {
			return "", err
		}
		asked++
		return fmt.Sprintf("booking %d: %s at %s", asked, form.Day, other.Time), nil
	})
	server.AddTool(s, mcp.Tool{Name: "job"}, func(ctx context.Context, in struct {
		Fail bool `json:"fail,omitempty"`
	}) (string, error) {
		if in.Fail {
			return "", errors.New("the job has failed")
		}
		return "the job is done", nil
	}, server.AsTask(server.TaskOptions{PollInterval: time.Millisecond}))
	server.AddStatic(s, mcp.Resource{URI: "docs://guide", Name: "Guide", MimeType: "text/plain"}, "the guide")
	server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: "docs://pages/{page}", Name: "Pages"},
		func(_ context.Context, in struct {
			Page string `json:"page"`
		}) (string, error) {
			return "page " + in.Page, nil
		})
	server.AddPrompt(s, mcp.Prompt{Name: "review"}, func(_ context.Context, in struct {
		Code string `json:"code"`
	}) (string, error) {
		return "Review " + in.Code, nil
	}, server.CompleteFrom("code", "go", "gopher"))
	return s
}

// use uses a server, and returns what the client has received.
func use(t *testing.T, c *client.Client) []string {
	t.Helper()
	ctx := t.Context()
	var seen []string
	note := func(what string, value any, err error) {
		text, _ := json.Marshal(value)
		wire := new(jsonrpc.Error)
		if errors.As(err, &wire) {
			err = fmt.Errorf("%d %s %s", wire.Code, wire.Message, wire.Data)
		}
		seen = append(seen, fmt.Sprintf("%s: %s %v", what, text, err))
	}
	about := c.Server()
	note("server", []string{about.Info.Name, about.Info.Version, about.Info.Title, about.Instructions}, nil)
	for tool, err := range c.Tools(ctx) {
		tool.Execution = nil // of 2025-11-25 only
		note("tool", tool, err)
	}
	call := func(name string, arguments any) {
		result, err := c.CallTool(ctx, name, arguments, client.WithLogLevel(mcp.LevelInfo),
			client.WithProgress(func(done, total float64, message string) {
				note("progress", []any{done, total, message}, nil)
			}))
		if result != nil {
			note(name, []any{result.Content, result.StructuredContent, result.IsError}, err)
		} else {
			note(name, nil, err)
		}
	}
	call("count", map[string]int{"by": 1})
	call("count", map[string]int{"by": 2})
	call("count", map[string]int{"by": 1})
	call("work", nil)
	call("fail", nil)
	call("reject", nil)
	call("job", nil)
	if c.Server().Capabilities.Tools != nil && c.Revision() >= mcp.V20250618 {
		call("ask", nil)
		call("ask", nil)
	}
	for _, uri := range []string{"docs://guide", "docs://pages/intro"} {
		read, err := c.ReadResource(ctx, uri)
		if err != nil {
			note(uri, nil, err)
		} else {
			note(uri, read.Contents, err)
		}
	}
	for resource, err := range c.Resources(ctx) {
		note("resource", resource, err)
	}
	for template, err := range c.ResourceTemplates(ctx) {
		note("template", template, err)
	}
	for prompt, err := range c.Prompts(ctx) {
		note("prompt", prompt, err)
	}
	prompt, err := c.GetPrompt(ctx, "review", map[string]string{"code": "x"})
	must.Do(t, err)
	note("review", prompt.Messages, err)
	return seen
}

// answering answers the questions of a server.
func answering(d *client.Dialer) {
	d.Elicit = func(_ context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		if strings.HasPrefix(form.Message, "When") {
			return mcp.AcceptElicit(map[string]any{"day": "Monday"})
		}
		return mcp.AcceptElicit(map[string]any{"time": "noon"})
	}
}

// record records what use does with a server over HTTP, in a revision.
func record(t *testing.T, s *server.Server, revision mcp.Revision) (recorded []byte, seen []string) {
	t.Helper()
	httpServer := httptest.NewServer(s)
	var file bytes.Buffer
	w := must.Get(recording.NewWriter(&file, recording.WriterOptions{Program: "test", Target: httpServer.URL}))(t)
	base := &http.Transport{}
	var mu sync.Mutex
	d := client.Dialer{Revision: revision, HTTPClient: &http.Client{Transport: &recording.Transport{Base: base,
		Report: func(e recording.Event) {
			mu.Lock()
			defer mu.Unlock()
			must.Check(t, w.Write(e))
		}}}}
	answering(&d)
	c := must.Get(d.Dial(t.Context(), client.URL(httpServer.URL)))(t)
	seen = use(t, c)
	c.Close()
	httpServer.Close()
	base.CloseIdleConnections()
	must.Check(t, s.Shutdown(t.Context()))
	mu.Lock()
	defer mu.Unlock()
	return bytes.Clone(file.Bytes()), seen
}

// recordedMock returns the mock of a recording.
func recordedMock(t testing.TB, recorded []byte, logger *slog.Logger) *Mock {
	t.Helper()
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	h, entries, err := recording.ReadAll(bytes.NewReader(recorded))
	must.Do(t, err)
	m := must.Get(fromRecording(h, entries, logger))(t)
	return m
}

func TestTheMockOfARecordingRespondsAsTheServerDid(t *testing.T) {
	for _, revision := range mcp.Revisions() {
		t.Run(string(revision), func(t *testing.T) {
			recorded, want := record(t, original(), revision)
			for _, transport := range mcptest.Transports() {
				if !transport.Supports(revision) {
					continue
				}
				c := transport.Dial(t, recordedMock(t, recorded, nil).Server(), mcptest.WithRevision(revision),
					answering)
				must.CheckEqual(t, cmp.Diff(want, use(t, c)), "", transport.Name, "the mock differs", recorded)
			}
		})
	}
}

func TestARecordingIsServedInOtherRevisions(t *testing.T) {
	for from, to := range map[mcp.Revision]mcp.Revision{mcp.V20260728: mcp.V20250618, mcp.V20250618: mcp.V20260728,
		mcp.V20251125: mcp.V20260728} {
		recorded, _ := record(t, original(), from)
		_, want := record(t, original(), to)
		c := mcptest.Dial(t, recordedMock(t, recorded, nil).Server(), mcptest.WithRevision(to), answering)
		must.CheckEqual(t, cmp.Diff(want, use(t, c)), "", from, to, "the mock differs")
	}
}

// lines returns a recording of stdio. Each line begins with > for the client or < for the server.
func lines(text string) []byte {
	var b strings.Builder
	b.WriteString(`{"parleyRecording":1,"redacted":true}` + "\n")
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			from := map[byte]string{'>': "client", '<': "server"}[line[0]]
			fmt.Fprintf(&b, `{"time":"2026-08-01T12:00:00Z","from":%q,"wire":"stdio","message":%s}`+"\n", from,
				line[1:])
		}
	}
	return []byte(b.String())
}

const echoes = `
	>{"jsonrpc":"2.0","id":1,"method":"tools/list"}
	<{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"login","inputSchema":{"type":"object"}}]}}
	>{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"login","arguments":{"user":"ada","auth":{"password":"redacted-1"}}}}
	>{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"login","arguments":{"user":"bob","auth":{"password":"redacted-2"}}}}
	<{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"bob"}]}}
	<{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"ada"}]}}
	>{"jsonrpc":"2.0","id":4,"method":"example/echo","params":{"a":1,"_meta":{"x/y":1}}}
	<{"jsonrpc":"2.0","id":4,"result":{"echoed":1}}
	>{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"lost","arguments":{}}}
	<{"jsonrpc":"2.0","id":5,"result":{"content":[{"type":"text","text":"not listed"}]}}
`

func TestSecretsMatchAnyValue(t *testing.T) {
	c := mcptest.Dial(t, recordedMock(t, lines(echoes), nil).Server())
	for _, user := range []string{"bob", "ada"} {
		got, err := client.CallTool[string](t.Context(), c, "login",
			map[string]any{"auth": map[string]string{"password": "secret"}, "user": user})
		must.CheckThat(t, err == nil && got == user, "got %q, %v", got, err)
	}
	_, err := c.CallTool(t.Context(), "login", map[string]any{"auth": map[string]any{"password": "secret", "otp": 1},
		"user": "ada"})
	must.CheckFails(t, err, `there are responses for {"auth":{"password":"redacted-1"},"user":"ada"}`)
}

func TestAListedToolThatWasNotCalledHasNoResponse(t *testing.T) {
	c := mcptest.Dial(t, recordedMock(t, lines(`
		>{"jsonrpc":"2.0","id":1,"method":"tools/list"}
		<{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"login","inputSchema":{"type":"object"}}]}}
	`), nil).Server())
	_, err := c.CallTool(t.Context(), "login", nil)
	wire := new(jsonrpc.Error)
	must.CheckThat(t, errors.As(err, &wire) &&
		wire.Message == "mock: the recording has no response to tools/call login" &&
		string(wire.Data) == `{"mock":"no response","available":[]}`, "got %v", err)
}

func TestUnlistedToolsAreServedAndNotListed(t *testing.T) {
	c := mcptest.Dial(t, recordedMock(t, lines(echoes), nil).Server())
	must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, "lost", nil))(t), "not listed")
	for tool := range c.Tools(t.Context()) {
		must.CheckEqual(t, tool.Name, "login", "the list")
	}
}

func TestUnknownNamesAreErrorsThatNameTheOthers(t *testing.T) {
	var log strings.Builder
	m := recordedMock(t, lines(echoes), slog.New(slog.NewTextHandler(&log, nil)))
	c := mcptest.Dial(t, m.Server())
	_, err := c.CallTool(t.Context(), "logout", nil)
	wire := new(jsonrpc.Error)
	must.CheckThat(t, errors.As(err, &wire) && wire.Code == jsonrpc.CodeInvalidParams &&
		strings.Contains(wire.Message, `unknown tool: "logout"; the mock has login, lost`), "got %v", err)
	must.CheckContains(t, log.String(), "logout", "the log is")
}

func TestInvalidRecordingsAreErrors(t *testing.T) {
	for text, want := range map[string]string{
		``: "the recording contains no response of a server",
		`>{"jsonrpc":"2.0","id":1,"method":"tools/list"}`: "the recording contains no response of a server",
	} {
		h, entries, err := recording.ReadAll(bytes.NewReader(lines(text)))
		if err == nil {
			_, err = fromRecording(h, entries, slog.New(slog.DiscardHandler))
		}
		must.CheckFails(t, err, want, text)
	}
}
