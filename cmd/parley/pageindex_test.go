package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

var updateIndex = flag.Bool("update", false, "write docs/llms.txt")

// TestIndexOfPagesIsComplete compares the two indexes: that for people, and the same for models in the format of
// llmstxt.org.
func TestIndexOfPagesIsComplete(t *testing.T) {
	index := strings.Join(readPage(t, "docs/README.md").lines, "\n")
	for _, name := range pageNames(t) {
		to, found := strings.CutPrefix(name, "docs/")
		must.CheckThat(t, !found || to == "README.md" || strings.Contains(index, "]("+to+")"),
			"docs/README.md has no link to %s", to)
	}
	want := introductionForModels
	for _, line := range strings.Split(strings.ReplaceAll(index, "\n  ", " "), "\n") {
		switch {
		case strings.HasPrefix(line, "## "):
			want += "\n" + line + "\n\n"
		case strings.HasPrefix(line, "- "):
			want += line + "\n"
		}
	}
	if *updateIndex {
		must.Do(t, os.WriteFile("../../docs/llms.txt", []byte(want), 0o644))
	}
	must.CheckEqual(t, string(must.Get(os.ReadFile("../../docs/llms.txt"))(t)), want,
		"docs/llms.txt is not the index of docs/README.md: run go test -run TestIndexOfPages ./cmd/parley -update")
}

const introductionForModels = `# Parley

> Parley is the Model Context Protocol (MCP) for Go: a library for servers, clients, hosts and gateways, and the program
> parley. It supports the revisions 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25 and 2026-07-28 over stdio and HTTP.

The Go module is github.com/parley-mcp/parley. "go doc github.com/parley-mcp/parley/server", and the same with client,
call, mcp and the other packages, describes the API. "parley COMMAND --help" describes a command, and "parley help all"
prints all pages about the program. The guide as one file, of the version that a module uses:

    cat $(go list -m -f '{{.Dir}}' github.com/parley-mcp/parley)/docs/guide/*.md
`

// rowOfFeature matches a number, a feature, its messages, and links to a page of the guide, a Go file and a test.
var rowOfFeature = regexp.MustCompile(`^\| (\d+) \| [^|]+ \| [^|]* \| [^|]*\]\(\.\./docs/guide/[a-z-]+\.md[^|]* ` +
	`\| [^|]*\]\([a-z./_]+\.go\)[^|]* \| \[Test\w+\]\([a-z./_]+_test\.go\) \|$`)

// The features are those of the audit of SDKs: mcp-sdk-tier-audit in github.com/modelcontextprotocol/conformance.
// TestLinksOfPagesLeadSomewhere follows the links.
func TestEveryFeatureHasAPageAnExampleAndATest(t *testing.T) {
	n := 0
	for i, line := range readPage(t, "conformance/FEATURES.md").lines {
		if !strings.HasPrefix(line, fmt.Sprintf("| %d |", n+1)) {
			continue
		}
		n++
		must.CheckThat(t, rowOfFeature.MatchString(line),
			"conformance/FEATURES.md:%d: must link a page of the guide, a Go file and a test", i+1)
	}
	must.CheckThat(t, n == 48, "conformance/FEATURES.md has %d features, want 48", n)
}
