package use

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/output"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
)

func TestMessagesFollowTheirRoles(t *testing.T) {
	var c contentWriter
	c.messages([]mcp.PromptMessage{
		{Role: mcp.RoleUser, Content: mcp.Text("a question\n")},
		{Role: mcp.RoleAssistant, Content: mcp.Text("an answer")},
		{Role: mcp.RoleUser, Content: mcp.Image(make([]byte, 2), "image/png")},
	})
	want := "user:\na question\n\nassistant:\nan answer\n\nuser:\n[image, image/png, 2 bytes; save it with --save " +
		"DIR]\n"
	diff := cmp.Diff(want, c.b.String())
	must.CheckThat(t, diff == "", "(- want, + got)\n%s", diff)
}

func TestTextEndsWithANewlineAndOtherContentsAreUnchanged(t *testing.T) {
	for _, c := range []struct {
		contents []mcp.ResourceContents
		want     string
	}{
		{[]mcp.ResourceContents{{URI: "a:b", Text: "no end \x1b"}}, "no end \x1b\n"},
		{[]mcp.ResourceContents{{URI: "a:b", Text: "an end\n"}}, "an end\n"},
		{[]mcp.ResourceContents{{URI: "a:b"}}, ""},
		{[]mcp.ResourceContents{{URI: "a:b", Blob: []byte{0, 255, '\n'}}}, "\x00\xff\n"},
		{[]mcp.ResourceContents{{URI: "a:b", Blob: []byte{}}}, ""},
		{[]mcp.ResourceContents{{URI: "a:b", Text: "x"}, {URI: "a:c", MimeType: "image/png", Blob: []byte{0}}},
			"[resource a:b]\nx\n[resource a:c, image/png, 1 byte; save it with --save DIR]\n"},
	} {
		var b strings.Builder
		err := printContents(&b, c.contents, nil)
		must.CheckThat(t, err == nil && b.String() == c.want, "printed %q, %v, want %q", b.String(), err, c.want)
	}
}

func TestRenderDescribesContent(t *testing.T) {
	var c contentWriter
	c.saved = savedFiles{}
	picture := mcp.Image(make([]byte, 1), "image/gif")
	c.saved[picture] = "dir/picture.gif"
	c.result(&mcp.CallToolResult{
		Content: []mcp.Content{
			mcp.Text("a text"),
			mcp.Text("a text with a newline\n"),
			mcp.Image(make([]byte, 1536), "image/png"),
			mcp.Audio(make([]byte, 3<<20), "audio/\x1bwav"),
			&mcp.ResourceLink{Name: "notes", URI: "file:///notes.txt"},
			&mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "file:///a", MimeType: "text/plain",
				Text: "the contents"}},
			&mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "file:///b", Blob: []byte{0}}},
			picture,
			&mcp.UnknownContent{Type: "hologram", Raw: json.RawMessage(`{"type":"hologram"}`)},
		},
		StructuredContent: json.RawMessage(`{"not":"shown"}`),
	})
	want := `a text
a text with a newline
[image, image/png, 1.5 KiB; save it with --save DIR]
[audio, audio/␛wav, 3.0 MiB; save it with --save DIR]
[resource notes: file:///notes.txt]
[resource file:///a, text/plain]
the contents
[resource file:///b, 1 byte; save it with --save DIR]
[image, image/gif, 1 byte; saved as dir/picture.gif]
[content of the unknown type hologram; use --output json]
`
	diff := cmp.Diff(want, c.b.String())
	must.CheckThat(t, diff == "", "(- want, + got)\n%s", diff)
}

func TestStructuredContentIsPrintedWithoutOtherContent(t *testing.T) {
	var c contentWriter
	c.result(&mcp.CallToolResult{StructuredContent: json.RawMessage(`{"n":9007199254740993}`)})
	if got, want := c.b.String(), "{\n  \"n\": 9007199254740993\n}\n"; got != want {
		t.Errorf("the result is %q, want %q", got, want)
	}
}

func snapshotOf(tools ...*mcp.Tool) snapshot {
	s := snapshot{}
	for _, tool := range tools {
		s[entry{"tool", tool.Name}], _ = json.Marshal(tool)
	}
	return s
}

func TestChangesToComparesEntries(t *testing.T) {
	was := snapshotOf(&mcp.Tool{Name: "same"}, &mcp.Tool{Name: "gone"},
		&mcp.Tool{Name: "other", Title: "a", Description: "a"})
	now := snapshotOf(&mcp.Tool{Name: "new"}, &mcp.Tool{Name: "same"}, &mcp.Tool{Name: "other", Description: "b"})
	var lines []string
	for _, e := range was.changesTo(now) {
		lines = append(lines, e.text())
		if !json.Valid(e.Value) != (e.Event == eventRemoved) {
			t.Errorf("event %s has the value %s", e.text(), e.Value)
		}
	}
	if got, want := strings.Join(lines, "; "),
		"- tool gone; + tool new; ~ tool other: description, title"; got != want {
		t.Errorf("changes %s, want %s", got, want)
	}
	events := now.changesTo(now)
	must.CheckEqual(t, len(events), 0, "changes of an equal snapshot", events)
}

func TestEventsAreSanitisedLines(t *testing.T) {
	for _, format := range []output.Format{output.Table, output.JSON} {
		asJSON := format == output.JSON
		var b strings.Builder
		r := newReporter(&b, format)
		r.now = func() time.Time { return time.Date(2027, 1, 31, 9, 30, 0, 0, time.UTC) }
		r.report(event{Event: eventAdded, Kind: "tool", Name: "a\x1b[2J\nb"})
		r.report(event{Event: eventLost, Error: "gone\x07"})
		r.report(event{Event: eventLog, Level: mcp.LevelInfo, Data: json.RawMessage(`"x\u001b"`)})
		out := b.String()
		must.CheckThat(t, strings.Count(out, "\n") == 3 && !strings.ContainsAny(out, "\x1b\x07"), "output %q", out)
		for line := range strings.Lines(out) {
			must.CheckThat(t, asJSON == json.Valid([]byte(line)) && (asJSON || strings.HasPrefix(line, "09:30:00 ")),
				"line %q", line)
		}
	}
}

func TestReporterReturnsTheErrorOfItsWriter(t *testing.T) {
	reader, writer := io.Pipe()
	_ = reader.Close()
	r := newReporter(writer, output.Table)
	must.Check(t, r.failed(), "failed() != nil before the first event")
	if r.report(event{Event: eventRegained}); r.failed() == nil {
		t.Error("failed() == nil after writing to a closed pipe")
	}
}

func TestLogLineReturnsOneLine(t *testing.T) {
	for data, want := range map[string]string{
		`"plain\u001b[2J\ntext"`:                           "server: info: disk: plain␛[2J text",
		`{"message":"full","percent":93,"machine":"carl"}`: "server: info: disk: full: percent=93, machine=carl",
		`{"message":"full"}`:                               "server: info: disk: full",
		`{"percent":93}`:                                   `server: info: disk: {"percent":93}`,
		`[1,2]`:                                            "server: info: disk: [1,2]",
		`null`:                                             "server: info: disk:",
	} {
		got := logLine(mcp.LoggingMessageParams{Level: mcp.LevelInfo, Logger: "disk",
			Data: json.RawMessage(data)})
		must.CheckThat(t, got == want, "logLine of %s = %q, want %q", data, got, want)
	}
}

func TestUnknownToolOfLargeCatalogueNamesTheSearch(t *testing.T) {
	err := unknownName("tool", "files__greet", []string{"call_tool", "describe_tool", "search_tools"})
	want := "find it with search_tools, and call it with call_tool"
	must.CheckContains(t, err.Error(), want, err)
}

// The SDKs for TypeScript, Python, Go, C#, Kotlin and Java write these texts.
func TestErrorsAboutUnknownToolsAreRecognized(t *testing.T) {
	for text, want := range map[string]bool{
		"MCP error -32602: Tool gret not found": true, "Tool gret not found": true, "Unknown tool: gret": true,
		`unknown tool "gret"`: true, "Unknown tool: 'gret'": true, "Unknown tool: invalid tool name gret": true,
		"No such tool: gret": true, "The tool gret does not exist": true,
		"the file /tmp/a was not found": false, "gret failed: out of memory": false, "Unknown city Oslo": false, "": false,
	} {
		got := saysUnknown(text, "gret")
		must.CheckThat(t, got == want, "%q: %t", text, got)
	}
}
