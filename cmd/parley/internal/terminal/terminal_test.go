package terminal

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/internal/corpus"
	"github.com/parley-mcp/parley/internal/must"
)

func TestLineAndBlockSanitiseText(t *testing.T) {
	for _, c := range []struct{ text, line, block string }{
		{"plain", "plain", "plain"},
		{"größe 漢字 👩‍🚀", "größe 漢字 👩‍🚀", "größe 漢字 👩‍🚀"},
		{" two\n\n lines\t", "two lines", " two\n\n lines\t"},
		{"\x1b[31mred\x1b[0m", "␛[31mred␛[0m", "␛[31mred␛[0m"},
		{"\x1b]0;title\x07", "␛]0;title␇", "␛]0;title␇"},
		{"over\rwrite\b", "over write␈", "over␍write␈"},
		{"\u009b31m", "<U+009B>31m", "<U+009B>31m"},
		{"a\u202eb\u2066c", "a<U+202E>b<U+2066>c", "a<U+202E>b<U+2066>c"},
		{"a\ufe0fb\u3164c\u2028", "a<U+FE0F>b<U+3164>c", "a<U+FE0F>b<U+3164>c<U+2028>"},
		{"nul\x00 del\x7f", "nul␀ del␡", "nul␀ del␡"},
		{"bad\xffutf8", "bad�utf8", "bad�utf8"},
	} {
		must.CheckEqual(t, Line(c.text), c.line, c.text)
		must.CheckEqual(t, Block(c.text), c.block, c.text)
	}
}

func TestJSONSanitisesWithoutChangingTheValue(t *testing.T) {
	in, _ := json.Marshal("\x1b[31m \u009b \u202e \u2028 \ufe0f \u3164 \U000e0041 é 👩‍🚀 \x7f")
	out := JSON(string(in))
	var before, after string
	must.Do(t, json.Unmarshal(in, &before))
	err := json.Unmarshal([]byte(out), &after)
	must.CheckThat(t, err == nil && before == after, "the value changed from %q to %q (%v)", before, after, err)
	for _, r := range "\x1b\u009b\u202e\u2028\ufe0f\u3164\U000e0041\x7f" {
		must.CheckThat(t, !strings.ContainsRune(out, r), "%U is not escaped in %q", r, out)
	}
}

func FuzzLineReturnsOneSanitisedLine(f *testing.F) {
	f.Add("\x1b[2J")
	f.Fuzz(func(t *testing.T, text string) {
		line := Line(text)
		must.CheckThat(t, utf8.ValidString(line) && !strings.ContainsAny(line, "\n\r\t\x1b\x07\x7f"),
			"Line(%q) = %q", text, line)
	})
}

func TestTableFitsTheWidth(t *testing.T) {
	head := []string{"TOOL", "ARGUMENTS", "DESCRIPTION"}
	rows := [][]string{
		{"read", "path=string [head=integer] [tail=integer]", "Read a file from the file system, whole or in part"},
		{"漢字", "", "Wide characters take two columns each"},
		{"x", "a=b", ""},
	}
	for width, want := range map[int]string{
		0: `TOOL  ARGUMENTS                                  DESCRIPTION
read  path=string [head=integer] [tail=integer]  Read a file from the file system, whole or in part
漢字                                             Wide characters take two columns each
x     a=b
`,
		60: `TOOL  ARGUMENTS                    DESCRIPTION
read  path=string [head=integer]…  Read a file from the fil…
漢字                               Wide characters take two…
x     a=b
`,
		30: `TOOL  ARGUMENTS
read  path=string [head=integ…
漢字
x     a=b
`,
		8: `TOOL
read
漢字
x
`,
	} {
		var b bytes.Buffer
		must.Do(t, Table(&b, width, head, rows))
		must.CheckEqual(t, cmp.Diff(want, b.String()), "", width, "- want, +")
	}
}

func TestTableWrapsItsLastColumn(t *testing.T) {
	rows := [][]string{{"files", "command", "npx -y a-server /srv/documents"}, {"x", "", "y"}}
	want := `SERVER  KIND     TARGET
files   command  npx -y a-server
                 /srv/documents
x                y
`
	var b bytes.Buffer
	must.Do(t, WrappedTable(&b, 34, []string{"SERVER", "KIND", "TARGET"}, rows))
	must.CheckEqual(t, cmp.Diff(want, b.String()), "", "- want, +")
}

func TestProgressOnATerminalStaysOnOneLine(t *testing.T) {
	var b bytes.Buffer
	p := &Progress{w: &b, label: "x", width: 50}
	p.Set(1, 4, "a quarter\nis done")
	p.Set(7, 0, "")
	p.Set(0, 0, "row 1") // a task
	p.Done()
	p.Done()
	want := "\r\x1b[K██████░░░░░░░░░░░░░░░░░░ 1/4 a quarter is done" + "\r\x1b[K7" + "\r\x1b[Krow 1" + "\r\x1b[K"
	must.CheckEqual(t, b.String(), want)
}

func TestProgressToAFileIsOneLinePerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		p := NewProgress(&b, "copy")
		for i := range 26 {
			p.Set(float64(i), 25, "")
			time.Sleep(100 * time.Millisecond)
		}
		p.Done()
		want := "copy: 0/25\ncopy: 10/25\ncopy: 20/25\ncopy: 25/25\n"
		must.CheckEqual(t, b.String(), want)
	})
}

func TestPauseQueuesLinesUntilResume(t *testing.T) {
	var b strings.Builder
	p := NewProgress(&b, "count")
	p.Println("before")
	p.Pause()
	p.Set(2, 2, "dropped")
	for i := range maxQueued + 2 {
		p.Println(strconv.Itoa(i))
	}
	must.CheckEqual(t, b.String(), "before\n", "output while paused")
	p.Resume()
	p.Println("after")
	got := strings.Split(b.String(), "\n")
	must.CheckThat(t, len(got) == maxQueued+4 && got[1] == "0" && got[maxQueued] == "99" &&
		got[maxQueued+1] == "(2 more lines)" && got[maxQueued+2] == "after", "output is %q", got)
}

func TestNearestReturnsTheMostSimilarName(t *testing.T) {
	names := []string{"read_file", "write_file", "files__greet", "files__bake", "mails__send", "Add"}
	for word, want := range map[string]string{
		"files__great": "files__greet", "file__greet": "files__greet", "mail__greet": "", "mails__greet": "",
		"files__add": "",
		"read_fil":   "read_file", "raed_file": "read_file", "dAd": "Add", "greet": "files__greet", "add": "Add",
		"unrelated": "", "": "",
	} {
		must.CheckEqual(t, Nearest(word, names), want, word)
	}
}

func TestTextsOfTheCorpus(t *testing.T) {
	for _, c := range corpus.Cases(t, "rules/text") {
		text := c.Text(t)
		for name, shown := range map[string]string{"Line": Line(text), "Block": Block(text)} {
			must.CheckEqual(t, shown == text, c.Want() == "unchanged", c.Place, c.Name, name, shown)
			must.CheckThat(t, !strings.ContainsFunc(shown, func(r rune) bool {
				return unicode.Is(unicode.C, r) &&
					r != 0x200D
			}), "%s: %s: %s has control characters: %.100q", c.Place, c.Name, name, shown)
		}
	}
}
