package calling

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/cmd/parley/internal/output"
	"github.com/parley-mcp/parley/mcp"
)

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
	if events := now.changesTo(now); len(events) != 0 {
		t.Errorf("changes of an equal snapshot: %+v", events)
	}
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
		if strings.Count(out, "\n") != 3 || strings.ContainsAny(out, "\x1b\x07") {
			t.Errorf("output %q", out)
		}
		for line := range strings.Lines(out) {
			if asJSON != json.Valid([]byte(line)) || !asJSON && !strings.HasPrefix(line, "09:30:00 ") {
				t.Errorf("line %q", line)
			}
		}
	}
}

func TestReporterReturnsTheErrorOfItsWriter(t *testing.T) {
	reader, writer := io.Pipe()
	_ = reader.Close()
	r := newReporter(writer, output.Table)
	if r.failed() != nil {
		t.Error("failed() != nil before the first event")
	}
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
		if got := logLine(mcp.LoggingMessageParams{Level: mcp.LevelInfo, Logger: "disk",
			Data: json.RawMessage(data)}); got != want {
			t.Errorf("logLine of %s = %q, want %q", data, got, want)
		}
	}
}
