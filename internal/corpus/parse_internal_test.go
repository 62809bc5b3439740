package corpus

import (
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

func TestMalformedFilesAreRejected(t *testing.T) {
	for text, want := range map[string]string{
		"stray":                            "must belong to a case",
		"== a\nx":                          "must have an outcome",
		"== a\nx\n=> ok\ny":                "must be empty or a comment",
		"== a\nx\nv: 1\ny\n=> ok":          "must precede values",
		"== a\nx\n=> ok\n== a\nx\n=> ok":   "must be unique",
		"== a\nx\n=> sometimes: ok":        "in a condition must be one of",
		"== a\nx\n=> ":                     "outcome is empty",
		"== a\nx\nv: 1\nv: 1\nv: 2\n=> ok": "must be unique",
	} {
		must.CheckFails(t, must.Err(parse("f", text)), want, text)
	}
}

func TestTheLastOutcomeWhoseConditionHoldsCounts(t *testing.T) {
	cases, err := parse("f",
		"== a\n{\nv: 1\nv: 2\n=> result <<v>>\n=> modern http: none\n=> 2024-11-05: other\n\n== b\nx\n=> legacy: y")
	must.Do(t, err)
	must.Equal(t, len(cases), 3, cases)
	for _, tc := range []struct {
		c    Case
		tags string
		want string
	}{
		{cases[0], "modern stream", "result 1"}, {cases[1], "modern http", "none"},
		{cases[1], "legacy http 2024-11-05", "other"},
		{cases[2], "legacy", "y"}, {cases[2], "modern", ""},
	} {
		must.CheckEqual(t, tc.c.Want(strings.Fields(tc.tags)...), tc.want, tc.c.Name, tc.tags)
	}
	must.CheckEqual(t, cases[1].Text(t), "{2")
}

func TestUnknownExpressionsAreErrors(t *testing.T) {
	for _, text := range []string{"<<x>>", "<<hex G0>>", "<<hex 0>>", "<<repeat -1 a>>", "<<repeat 99999999999 a>>",
		"<<numbers a b>>", "<<repeat 2"} {
		got, err := expand(text, nil)
		must.CheckThat(t, err != nil, "%s is %q", text, got)
	}
}
