package program

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPagesBecomePlainText(t *testing.T) {
	const page = "# Rules\n\n" +
		"A rule decides **first**. See [policy.md](policy.md#rules), [the reference](appendix-policy.md), " +
		"[RE2](https://example.com/re2)\nand [below](#more).\n\n" +
		"```json\n{ \"a long line of code that is not divided\": [1, 2] }\n```\n\n" +
		"    parley up     # indented\n\n" +
		"- first item, which continues\n  on the next line\n- second\n\n" +
		"## More\n\n" +
		"| member | meaning |\n|---|---|\n| `a` | the first of two words \\| more |\n| `long-name` | |\n\n" +
		"1. one\n2. two\n"
	const want = "Rules\n=====\n\n" +
		"A rule decides first. See `parley help\n" +
		"policy`, the reference (`parley help\n" +
		"appendix-policy`), RE2\n" +
		"(https://example.com/re2) and below.\n\n" +
		"    { \"a long line of code that is not divided\": [1, 2] }\n\n" +
		"    parley up     # indented\n\n" +
		"- first item, which continues on the\n  next line\n- second\n\n" +
		"More\n----\n\n" +
		"member       meaning\n" +
		"`a`          the first of two words |\n             more\n" +
		"`long-name`\n\n" +
		"1. one\n2. two\n"
	if diff := cmp.Diff(want, ManualText(page, 40)); diff != "" {
		t.Errorf("- want, + got\n%s", diff)
	}
}
