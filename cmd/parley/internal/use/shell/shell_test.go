package shell

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

func TestLinesAreSplitAsAShellDoes(t *testing.T) {
	for _, c := range []struct {
		line string
		want []string
	}{
		{"", nil},
		{"  call  greet name=Ada ", []string{"call", "greet", "name=Ada"}},
		{`call note 'text=a b' "x=\"y\" \n"`, []string{"call", "note", "text=a b", `x="y" \n`}},
		{`a\ b '' c'd'"e"`, []string{"a b", "", "cde"}},
		{`call add '{"a": 1}' # a comment`, []string{"call", "add", `{"a": 1}`}},
		{"a#b", []string{"a#b"}},
		{`$HOME *`, []string{"$HOME", "*"}},
	} {
		if got, err := Split(c.line); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, %v, want %q", c.line, got, err, c.want)
		}
	}
	if _, err := Split(`call 'greet`); err == nil {
		t.Error("no error for an open quotation")
	}
}

func TestTheCurrentWordIsTheOneBeforeTheCursor(t *testing.T) {
	for _, c := range []struct {
		line    string
		before  []string
		current string
		start   int
	}{
		{"", nil, "", 0},
		{"ca", nil, "ca", 0},
		{"call ", []string{"call"}, "", 5},
		{"call gr", []string{"call"}, "gr", 5},
		{"call note 'text=a b", []string{"call", "note"}, "text=a b", 10},
	} {
		before, current, start := Cursor(c.line)
		if !slices.Equal(before, c.before) || current != c.current || start != c.start {
			t.Errorf("%q: %q %q %d", c.line, before, current, start)
		}
	}
}

func TestLinesOfOtherShellsAreReadWithoutExecution(t *testing.T) {
	getenv := func(name string) string { return "<" + name + ">" }
	for _, c := range []struct {
		line, word string
		quote      byte
		fish       bool
	}{
		{`p $U`, "<U>", 0, false},
		{`p "${U}/a`, "<U>/a", '"', false},
		{`p '$U`, "$U", '\'', false},
		{`p \$U`, "$U", 0, false},
		{`p ~/a`, "<HOME>/a", 0, false},
		{`p '~/a'`, "~/a", 0, false},
		{`p $(ran)`, "$(ran)", 0, false},
		{`p 'a\'b`, `a\b`, 0, false},
		{`p 'a\'b\\c\d`, `a'b\c\d`, '\'', true},
	} {
		before, word, _, quote := Syntax{Getenv: getenv, Fish: c.fish}.Cursor(c.line)
		if len(before) != 1 || word != c.word || quote != c.quote {
			t.Errorf("%s: %q %q %q", c.line, before, word, quote)
		}
	}
}

func hasToken(line string) bool { return strings.Contains(line, "token=") }

func TestHistoryIsKeptWithoutSecretsForTheUserOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "history")
	h := must.Get(OpenHistory(path, hasToken))(t)
	for _, line := range []string{"ls", "ls", "", "call a token=b", " call b", "ping"} {
		h.Add(line)
	}
	if h.Len() != 4 || h.At(0) != "ping" || h.At(2) != "call a token=b" {
		t.Errorf("history %q", h.lines)
	}
	content, err := os.ReadFile(path)
	if err != nil || string(content) != "ls\nping\n" {
		t.Errorf("file %q, %v", content, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	h, err = OpenHistory(path, hasToken)
	if err != nil || h.Len() != 2 || h.At(0) != "ping" || h.At(1) != "ls" {
		t.Errorf("history %q, %v", h.lines, err)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	h := must.Get(OpenHistory(path, hasToken))(t)
	for i := range 3 * maxHistory {
		h.Add(fmt.Sprintf("call %d", i))
	}
	h.Add(strings.Repeat("a", maxLine+1))
	if h.Len() != maxHistory || h.At(0) != "call 2999" {
		t.Errorf("%d lines, the last is %.20s", h.Len(), h.At(0))
	}
	content, err := os.ReadFile(path)
	if lines := strings.Count(string(content), "\n"); err != nil || lines > 2*maxHistory ||
		!strings.HasSuffix(string(content), "call 2999\n") {
		t.Errorf("%d lines in the file, %v", lines, err)
	}
}

func TestTabInsertsWhatAllCandidatesHave(t *testing.T) {
	for _, c := range []struct {
		word           string
		candidates     Candidates
		inserted, list string
	}{
		{"x", Candidates{}, "x", ""},
		{"gr", Candidates{Words: []string{"greet"}}, "greet ", ""},
		{"na", Candidates{Words: []string{"name="}, Open: true}, "name=", ""},
		{"c", Candidates{Words: []string{"count", "counter"}}, "count", ""},
		{"count", Candidates{Words: []string{"count", "counter"}}, "count", "count  counter"},
		{"", Candidates{Words: []string{"é", "è"}}, "", "é  è"},
	} {
		if inserted, list := c.candidates.choose(c.word); inserted != c.inserted || list != c.list {
			t.Errorf("%s %+v: %q %q", c.word, c.candidates, inserted, list)
		}
	}
}

func TestCtrlCClearsTheLine(t *testing.T) {
	k := &keys{Reader: strings.NewReader("abc\x03def")}
	got, err := io.ReadAll(io.LimitReader(k, 6))
	if err != nil || string(got) != "abc\x05\x15\r" || !k.interrupted {
		t.Errorf("keys %q, %v, interrupted %v", got, err, k.interrupted)
	}
}
