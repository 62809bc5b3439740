package examples

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/apps"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/skills"
	"github.com/parley-mcp/parley/transport"
)

// A program links what it uses. The names of functions are in a binary without symbols, too.
func TestProgramsLinkWhatTheyUse(t *testing.T) {
	const (
		httpClient = "net/http.(*Transport).roundTrip"
		pages      = "parley/apps.AddPage"
		withSkills = "parley/skills.Add"
		yaml       = "go.yaml.in/yaml/v3.(*parser).parse"
	)
	for name, want := range map[string]string{"call": "", "host": "", "hello": "", "login": httpClient, "poll": pages,
		"skills": withSkills + yaml} {
		program := must.Get(os.ReadFile(binary(name)))(t)
		for _, function := range []string{httpClient, pages, withSkills, yaml} {
			if got := bytes.Contains(program, []byte(function)); got != strings.Contains(want, function) {
				t.Errorf("%s has %s: %t", name, function, got)
			}
		}
	}
}

// binaries is the directory in which TestMain builds the examples.
var binaries string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "examples")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", dir+string(filepath.Separator),
		"./...").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s%v\n", out, err)
		return 1
	}
	binaries = dir
	return m.Run()
}

func binary(name string) string {
	path := filepath.Join(binaries, name)
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	return path
}

// start connects to a program that is a server over standard input and output.
func start(t *testing.T, d *client.Dialer, options transport.CommandOptions) *client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c := must.Get(d.Dial(ctx, &client.CommandTarget{CommandOptions: options}))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func startExample(t *testing.T, name string, args ...string) *client.Client {
	t.Helper()
	return start(t, &client.Dialer{}, transport.CommandOptions{Path: binary(name), Args: args})
}

func TestEveryExampleIsListedAndTested(t *testing.T) {
	readme := must.Get(os.ReadFile("README.md"))(t)
	source := ""
	tests, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range tests {
		source += string(must.Get(os.ReadFile(file))(t))
	}
	programs, err := filepath.Glob("*/main.go")
	if err != nil || len(programs) < 10 {
		t.Fatalf("programs %v, %v", programs, err)
	}
	for _, program := range programs {
		name := filepath.Dir(program)
		if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil { // a separate module, with its own test
			continue
		}
		if !strings.Contains(string(readme), "]("+name+"/main.go)") {
			t.Errorf("README.md does not mention %s", name)
		}
		if !strings.Contains(source, `"`+name+`"`) {
			t.Errorf("no test runs %s", name)
		}
	}
}

func TestHello(t *testing.T) {
	text, err := client.CallTool[string](t.Context(), startExample(t, "hello"), "greet",
		map[string]string{"name": "Ada"})
	if err != nil || text != "Hello, Ada!" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestGreet(t *testing.T) {
	cmd := exec.Command(binary("greet"))
	cmd.Dir = ".." // it runs ./examples/hello
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Hello, Ada!") {
		t.Errorf("%s, %v", out, err)
	}
}

func TestCall(t *testing.T) {
	out, err := exec.Command(binary("call"), "greet", `{"name":"Ada"}`, binary("hello")).CombinedOutput()
	want := "hello uses revision 2026-07-28\n- greet: Greet a person by name\nHello, Ada!\n"
	if err != nil || string(out) != want {
		t.Errorf("%s%v, want %s", out, err, want)
	}
	out, err = exec.Command(binary("call"), "greet", `{}`, binary("hello")).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "tool greet failed: ") ||
		!strings.Contains(string(out), "let the model read the text") {
		t.Errorf("%s%v", out, err)
	}
	out, err = exec.Command(binary("call"), "greet", `{}`, binary("missing")).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the tool has not run") {
		t.Errorf("%s%v", out, err)
	}
	out, err = exec.Command(binary("call"), "missing", `{}`, binary("hello")).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "correct the name of the tool") {
		t.Errorf("%s%v", out, err)
	}
}

func TestAnswer(t *testing.T) {
	cmd := exec.Command(binary("answer"), "book", binary("booking"))
	cmd.Stdin = strings.NewReader("y\ntue\n\n")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Booked a table for 2 on tue.") {
		t.Errorf("%s%v", out, err)
	}
	out, err = exec.Command(binary("answer"), "count", binary("progress")).CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "10 of 10 counting\ncounted to 10\n") {
		t.Errorf("%s%v", out, err)
	}
}

func TestWeather(t *testing.T) {
	c := startExample(t, "weather")
	got, err := client.CallTool[map[string]any](t.Context(), c, "weather",
		map[string]string{"city": "Oslo", "unit": "fahrenheit"})
	if err != nil || got["temperature"] != 25.7 || got["windy"] != true {
		t.Errorf("%v, %v", got, err)
	}
	for _, arguments := range []map[string]string{{"city": "Atlantis"}, {"city": "Oslo", "unit": "kelvin"}, {}} {
		_, err := client.CallTool[map[string]any](t.Context(), c, "weather", arguments)
		var failed *client.ToolError
		if !errors.As(err, &failed) {
			t.Errorf("%v: %v, want a tool error", arguments, err)
		}
	}
}

func TestProgress(t *testing.T) {
	c := startExample(t, "progress")
	var steps []string
	text, err := client.CallTool[string](t.Context(), c, "count", nil,
		client.WithProgress(func(done, total float64, message string) {
			steps = append(steps, fmt.Sprintf("%v/%v %s", done, total, message))
		}))
	if err != nil || text != "counted to 10" || len(steps) != 10 || steps[9] != "10/10 counting" {
		t.Errorf("%q, %v, %q", text, err, steps)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = c.CallTool(ctx, "count", nil, client.WithProgress(func(float64, float64, string) { cancel() }))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

func TestBooking(t *testing.T) {
	d := &client.Dialer{Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return mcp.AcceptElicit(map[string]any{"day": "tue"})
	}}
	text, err := client.CallTool[string](t.Context(), start(t, d, transport.CommandOptions{Path: binary("booking")}),
		"book", nil)
	if err != nil || text != "Booked a table for 2 on tue." {
		t.Errorf("%q, %v", text, err)
	}

	d = &client.Dialer{Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
	}}
	_, err = client.CallTool[string](t.Context(), start(t, d, transport.CommandOptions{Path: binary("booking")}),
		"book", nil)
	if err == nil || !strings.Contains(err.Error(), server.ErrDeclined.Error()) {
		t.Errorf("%v", err)
	}
}

func TestTickets(t *testing.T) {
	d := &client.Dialer{Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return mcp.AcceptElicit(map[string]string{"reason": "invalid"})
	}}
	text, err := client.CallTool[string](t.Context(), start(t, d, transport.CommandOptions{Path: binary("tickets")}),
		"close", map[string]string{"id": "2"})
	if err != nil || text != "Ticket 2 is closed: invalid" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestOrder(t *testing.T) {
	d := &client.Dialer{Elicit: func(_ context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return mcp.AcceptElicit(map[string]string{"answer": strings.TrimSuffix(form.Message, "?")})
	}}
	text, err := client.CallTool[string](t.Context(), start(t, d, transport.CommandOptions{Path: binary("order")}),
		"order", nil)
	if err != nil || !strings.HasPrefix(text, "Which size Which pizza to Which address, receipt ") {
		t.Errorf("%q, %v", text, err)
	}
}

func TestLibrary(t *testing.T) {
	books := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(books, "a book.txt"), []byte("Once upon a time."), 0o600))
	c := startExample(t, "library", books)
	var listed []string
	for resource, err := range c.Resources(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, resource.URI)
	}
	slices.Sort(listed)
	if got := strings.Join(listed, " "); got != "file:///books/a%20book.txt library://rules library://time" {
		t.Errorf("listed %s", got)
	}
	for uri, want := range map[string]string{
		"library://rules":            "Be quiet.",
		"library://notes/ada/2":      `{"author":"ada","number":2}`,
		"file:///books/a%20book.txt": "Once upon a time.",
	} {
		result, err := c.ReadResource(t.Context(), uri)
		if err != nil || result.Contents[0].Text != want {
			t.Errorf("%s: %+v, %v", uri, result, err)
		}
	}
	for _, uri := range []string{"library://notes/eve/1", "library://notes/ada/4", "library://notes/ada/10",
		"file:///books/../secret"} {
		if _, err := c.ReadResource(t.Context(), uri); !errors.Is(err, call.ErrResourceNotFound) {
			t.Errorf("%s: error %v, want ErrResourceNotFound", uri, err)
		}
	}
}

func TestSkills(t *testing.T) {
	c := startExample(t, "skills")
	for s, err := range skills.List(t.Context(), c) {
		must.Do(t, err)
		for _, f := range s.Files {
			contents := must.Get(skills.Read(t.Context(), c, s, f.URI))(t)
			if !strings.HasPrefix(string(contents), "---\nname: release-notes\n") &&
				!strings.HasPrefix(string(contents), "# VERSION\n") {
				t.Errorf("%s: %s", f.URI, contents)
			}
		}
		if len(s.Files) != 2 {
			t.Errorf("%+v", s.Files)
		}
	}
}

func TestPoll(t *testing.T) {
	c := startExample(t, "poll")
	var page string
	for tool, err := range c.Tools(t.Context()) {
		must.Do(t, err)
		if tool.VisibleTo(apps.Model) {
			page = apps.PageOf(tool)
		}
	}
	_, html, err := apps.Read(t.Context(), c, mcp.Resource{URI: page})
	if err != nil || !strings.HasPrefix(html, "<!doctype html>") {
		t.Errorf("%.100s, %v", html, err)
	}
	must.Get(c.CallTool(t.Context(), "vote", map[string]any{"option": "Tea"}))(t)
	got := must.Get(client.CallTool[json.RawMessage](t.Context(), c, "poll", nil))(t)
	if !strings.Contains(string(got), `{"name":"Tea","votes":1},{"name":"Coffee","votes":0}`) {
		t.Errorf("%s", got)
	}
}

func TestPrompts(t *testing.T) {
	c := startExample(t, "prompts")
	prompt := must.Get(c.GetPrompt(t.Context(), "review", map[string]string{"language": "go", "reviewer": "Greta"}))(t)
	text := prompt.Messages[0].Content.(*mcp.TextContent).Text
	if text != "Review the following go code in the style of Greta." {
		t.Errorf("%q", text)
	}
	for _, tt := range []struct{ argument, value, want string }{{"language", "py", "python"},
		{"reviewer", "g", "Greta Gustav"}} {
		completion, err := c.Complete(t.Context(), mcp.CompleteParams{
			Ref:      mcp.CompleteReference{Type: mcp.RefPrompt, Name: "review"},
			Argument: mcp.CompleteArgument{Name: tt.argument, Value: tt.value},
			Context:  &mcp.CompleteContext{Arguments: map[string]string{"language": "go"}},
		})
		if err != nil || strings.Join(completion.Values, " ") != tt.want {
			t.Errorf("%s %s: %v, %v", tt.argument, tt.value, completion, err)
		}
	}
}

func TestLogging(t *testing.T) {
	var mu sync.Mutex
	var operator, clients []string
	keep := func(lines *[]string) func(string) {
		return func(line string) {
			mu.Lock()
			defer mu.Unlock()
			*lines = append(*lines, line)
		}
	}
	toClient := keep(&clients)
	d := &client.Dialer{OnLog: func(_ context.Context, m mcp.LoggingMessageParams) {
		toClient(string(m.Level) + string(m.Data))
	}}
	c := start(t, d, transport.CommandOptions{Path: binary("logging"), Stderr: keep(&operator)})
	must.Do(t, c.SetLogLevel(t.Context(), mcp.LevelWarning))
	text, err := client.CallTool[string](t.Context(), c, "fetch", map[string]string{"item": "wine"})
	if err != nil || text != "Here is the wine." {
		t.Errorf("%q, %v", text, err)
	}
	if err := c.Close(); err != nil { // the program has exited, so its output is complete
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Join(operator, "\n"); !strings.Contains(got, `"msg":"fetching","item":"wine"`) {
		t.Errorf("the log of the operator is %q", got)
	}
	if len(clients) != 1 || !strings.Contains(clients[0], "sold out") {
		t.Errorf("the client received %q", clients)
	}
}

func TestMiddleware(t *testing.T) {
	var lines []string
	c := start(t, &client.Dialer{}, transport.CommandOptions{Path: binary("middleware"),
		Stderr: func(line string) { lines = append(lines, line) }})
	if text, err := client.CallTool[string](t.Context(), c, "greet", nil); err != nil || text != "hello" {
		t.Errorf("%q, %v", text, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if got := strings.Join(lines, "\n"); !strings.Contains(got, "served a request method=tools/call") {
		t.Errorf("log: %s", got)
	}
}

func TestTested(t *testing.T) {
	c := startExample(t, "tested")
	if text, err := client.CallTool[string](t.Context(), c, "add", map[string]string{"text": "milk"}); err != nil ||
		text != "added" {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := client.CallTool[string](t.Context(), c, "last", nil); err != nil || text != "milk" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestClock(t *testing.T) {
	c := startExample(t, "clock", "10ms")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	updates, added := 0, false
	for change, err := range c.Watch(ctx, client.WatchFilter{Tools: true, URIs: []string{"clock://now"}}) {
		switch {
		case err != nil:
			t.Fatal(err)
		case change.Kind == client.ResourceUpdated && !change.Resync:
			updates++
		case change.Kind == client.ToolsChanged && change.Resync:
			if _, err := c.CallTool(ctx, "set_timer", nil); err != nil {
				t.Fatal(err)
			}
		case change.Kind == client.ToolsChanged:
			added = true
		}
		if added && updates >= 2 {
			break
		}
	}
	if text, err := client.CallTool[string](ctx, c, "cancel_timer", nil); err != nil ||
		text != "The timer is cancelled." {
		t.Errorf("%q, %v", text, err)
	}
}

func TestWatch(t *testing.T) {
	out, err := exec.Command(binary("watch"), "3", "clock://now", binary("clock"), "10ms").CombinedOutput()
	if got := string(out); err != nil || !strings.Contains(got, "tool set_timer\n") ||
		strings.Count(got, "clock://now ") != 4 {
		t.Errorf("%s%v", got, err)
	}
}

func TestTrip(t *testing.T) {
	answers := map[string]map[string]any{
		"When do you travel to Oslo?": {"day": "sat", "return": false},
		"Which seat do you want?":     {"by": "window"},
	}
	d := &client.Dialer{Elicit: func(_ context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return mcp.AcceptElicit(answers[form.Message])
	}}
	text, err := client.CallTool[string](t.Context(), start(t, d, transport.CommandOptions{Path: binary("trip")}),
		"plan", map[string]string{"to": "Oslo"})
	if err != nil || text != "To Oslo on sat, by the window." {
		t.Errorf("%q, %v", text, err)
	}
}

func TestSummary(t *testing.T) {
	d := &client.Dialer{Sample: func(_ context.Context, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult,
		error) {
		return &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: "test",
			Content: []mcp.Content{mcp.Text("It is about tea.")}}, nil
	}}
	arguments := map[string]string{"text": "Tea. More tea."}
	text, err := client.CallTool[string](t.Context(), start(t, d, transport.CommandOptions{Path: binary("summary")}),
		"summarize", arguments)
	if err != nil || text != "It is about tea." {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := client.CallTool[string](t.Context(), startExample(t, "summary"), "summarize", arguments); err == nil ||
		!strings.Contains(err.Error(), "does not offer a model") {
		t.Errorf("without a model: %v", err)
	}
}

func TestRoots(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "a"), nil, 0o600))
	d := &client.Dialer{Roots: func(context.Context) ([]mcp.Root, error) {
		return []mcp.Root{{URI: (&url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}).String(), Name: "work"}}, nil
	}}
	got, err := client.CallTool[struct {
		Files map[string]int `json:"files"`
	}](t.Context(), start(t, d, transport.CommandOptions{Path: binary("roots")}), "count", nil)
	if err != nil || got.Files["work"] != 1 {
		t.Errorf("%v, %v", got, err)
	}
}
