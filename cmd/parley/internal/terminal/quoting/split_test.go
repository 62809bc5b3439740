package quoting

import (
	"slices"
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
		if got, _, quote := split(c.line, Syntax{}); quote != 0 || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, open %q, want %q", c.line, got, quote, c.want)
		}
	}
	_, _, quote := split(`call 'greet`, Syntax{})
	must.CheckThat(t, quote == '\'', "an open quotation is %q", quote)
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
		before, current, start, _ := Syntax{}.Cursor(c.line)
		must.CheckThat(t, slices.Equal(before, c.before) && current == c.current && start == c.start,
			"%q: %q %q %d", c.line, before, current, start)
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
		must.CheckThat(t, len(before) == 1 && word == c.word && quote == c.quote,
			"%s: %q %q %q", c.line, before, word, quote)
	}
}
