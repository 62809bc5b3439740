package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// llms.txt is the index for models, in the format of llmstxt.org.
func TestIndexOfPagesIsComplete(t *testing.T) {
	for _, index := range []string{"docs/README.md", "docs/llms.txt"} {
		text := strings.Join(readPage(t, index).lines, "\n")
		for _, name := range pageNames(t) {
			to, found := strings.CutPrefix(name, "docs/")
			if found && to != "README.md" && !strings.Contains(text, "]("+to+")") {
				t.Errorf("%s has no link to %s", index, to)
			}
		}
	}
}

// rowOfFeature matches a number, a feature, its messages, and links to a page of the guide, a Go file and a test.
var rowOfFeature = regexp.MustCompile(`^\| (\d+) \| [^|]+ \| [^|]* \| [^|]*\]\(guide/[a-z-]+\.md[^|]* ` +
	`\| [^|]*\]\([a-z./_]+\.go\)[^|]* \| \[Test\w+\]\([a-z./_]+_test\.go\) \|$`)

// The features are those of the audit of SDKs: mcp-sdk-tier-audit in github.com/modelcontextprotocol/conformance.
// TestLinksOfPagesLeadSomewhere follows the links.
func TestEveryFeatureHasAPageAnExampleAndATest(t *testing.T) {
	n := 0
	for i, line := range readPage(t, "docs/features.md").lines {
		if !strings.HasPrefix(line, fmt.Sprintf("| %d |", n+1)) {
			continue
		}
		n++
		if !rowOfFeature.MatchString(line) {
			t.Errorf("docs/features.md:%d: must link a page of the guide, a Go file and a test", i+1)
		}
	}
	if n != 48 {
		t.Errorf("docs/features.md has %d features, want 48", n)
	}
}
