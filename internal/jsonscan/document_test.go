package jsonscan_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/parley-mcp/parley/internal/jsonscan"
)

func TestSkipStringFindsTheClosingQuote(t *testing.T) {
	for text, want := range map[string]int{
		`""`: 2, `"a",`: 3, `"\"",`: 4, `"\\","`: 4, `"\\\"",`: 6, `"a\\\\" "`: 7, `"é\u0022":"`: 10,
		`"open`: 5, `"open\"`: 7, `"`: 1, ``: 0,
	} {
		if got := jsonscan.SkipString([]byte(text), 0); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
}

func TestElementsYieldsTheValuesOfAnArray(t *testing.T) {
	for text, want := range map[string][]string{
		`[]`: nil, ` [ ] `[1:]: nil, `[1,"a]",{"b":[2,3]} , [ ],null]`: {`1`, `"a]"`, `{"b":[2,3]}`, `[ ]`, `null`},
		`[`: nil, `[1,`: {`1`}, `[}`: nil,
	} {
		var got []string
		for value := range jsonscan.Elements([]byte(text)) {
			got = append(got, string(value))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestReplaceLineBreaksKeepsTheRest(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "",
		`{"a":"b\n"}`:                    `{"a":"b\n"}`,
		"\r\n[\n\n1,\r\n\"\\r\\n\"]\n\r": "  [  1,  \"\\r\\n\"]  ",
	} {
		got := []byte(text)
		if jsonscan.ReplaceLineBreaks(got); string(got) != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestSkipPlainSkipsPlainBytesOnly(t *testing.T) {
	for c := range 256 {
		d := bytes.Repeat([]byte{byte(c)}, 41)
		want := len(d)
		if c < ' ' || c >= 0x80 || c == '"' || c == '\\' {
			want = 0
		}
		if got := jsonscan.SkipPlain(d, 0); got != want {
			t.Errorf("%q: %d, want %d", d[:1], got, want)
		}
	}
}

func TestSkipPlainFindsTheFirstByteThatIsNotPlain(t *testing.T) {
	for size := range 120 {
		for from := range size {
			for at := from; at <= size; at++ {
				for _, c := range []byte{'"', '\\', 0, 0x1f, 0x80, 0xff} {
					d := bytes.Repeat([]byte{'~'}, size)
					if from > 0 {
						d[from-1] = c // before the first byte
					}
					if at < size {
						d[at] = c
						d[size-1] = c // a later one
					}
					if got := jsonscan.SkipPlain(d, from); got != at {
						t.Fatalf("%d bytes, from %d: %d, want %d", size, from, got, at)
					}
				}
			}
		}
	}
}
