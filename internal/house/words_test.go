package house

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The language rules: plain English and standard terms in code, comments, texts, documents and file names.

var onlyPackage = flag.String("package", "", "list the findings of TestWords in this directory and below it")

// pending are the directories in which TestWords allows findings, with the directories below them.
var pending = []string{}

// word is a word that the project does not use, with the term to use instead.
type word struct {
	forms   string // the forms of the word, separated by spaces
	instead string
	// names limits the rule to identifiers and file names: the word is plain English in a sentence.
	names bool
	// dir limits the rule to a directory.
	dir string
}

var words = []word{
	{forms: "voice voices", instead: "notifier"},
	{forms: "pulse pulses", instead: "pinger"},
	{forms: "beat beats", instead: "ticker"},
	{forms: "rouse rouses roused", instead: "wake"},
	{forms: "deaf", instead: "closed"},
	{forms: "visit visits visited visiting", instead: "URL elicitation"},
	{forms: "warm warms warmed", instead: "session cache"},
	{forms: "tally tallies tallied", instead: "in-flight limit"},
	{forms: "shelf shelves", instead: "registrations"},
	{forms: "bulletin bulletins", instead: "broadcast"},
	{forms: "speak speaks speaking spoke spoken", instead: "support, use or downgrade"},
	{forms: "mend mends mended", instead: "sanitise"},
	{forms: "survey surveys surveyed", instead: "index"},
	{forms: "loops", instead: "cycles", names: true},
	{forms: "beside", instead: "next to, besides or in-place applicators"},
	{forms: "below", instead: "child applicators", names: true, dir: "schema"},
	{forms: "hold held holding", instead: "pause", names: true},
	{forms: "narrow narrows narrowed", instead: "freeze", names: true},
	{forms: "alarm alarms", instead: "deadline or timer"},
	{forms: "settle settles settled", instead: "finish"},
	{forms: "asker askers", instead: "input requester"},
	{forms: "lacked lacks", instead: "missing", names: true},
	{forms: "refuse refuses refused refusing", instead: "reject"}, // refusal is a term of the APIs of language models
	{forms: "stays", instead: "is long-lived", names: true, dir: "auth"},
	{forms: "room rooms", instead: "package, capacity"},
	{forms: "hall halls", instead: "package"},
	{forms: "wish wishes wished", instead: "want or request"},
	{forms: "whoever whomever", instead: "the client, the caller, …"},
	{forms: "nobody", instead: "no client, no caller, …"},
	{forms: "anybody", instead: "any client, any caller, …"},
	{forms: "somebody", instead: "a client, a user, …"},
	{forms: "everybody", instead: "every client, all users, …"},
}

// phrase is a phrase that the project does not use in sentences.
type phrase struct{ pattern, instead string }

var phrases = []phrase{
	{`by now`, "already"},
	{`as it is([.,;:)]|$)`, "unchanged"},
	{`(?:, |^)(and )?of which`, "a second sentence"},
	{`(^|[.;:] )one that`, "the noun"},
	{`that which|anyone who|such a one|of theirs`, "the noun"},
	{`of (its|their|one's) making`, "made by …"},
	{`stands? for`, "represents"},
	{`the like`, "and similar …"},
	{`(says?|said) of (itself|themselves)`, "declares"},
	{`(is|are|was|were|be|been|being) told`, "receives, is notified"},
	{`(hears?|heard|hearing) of`, "receives"},
	{`puts? to the (user|client)`, "ask"},
	{`(holds?|held|holding)( \S+){0,4} against`, "check against, compare with"},
}

// faults are forms of error texts that do not say what is wrong with the input: they state what always holds, or
// name nothing.
var faults = []phrase{
	{`(^|: )an? [^:;]*\b(is|are|has|have|had|goes|go|begins|needs?|names|consists)\b`, "X must be Y; cannot X: reason"},
	{`\bat most\b`, "too many X: %d, the limit is %d; X must have at most %d"},
	{`\b(is|are) (no|none)\b`, "X must be Y; X is not a Y"},
	{`\bwould not\b`, "X declined; cannot X: reason"},
	{`^(what|who|which|where|that|nothing)\b`, "the noun"},
}

// namesRule matches error texts that may have the form of a statement, because they name the rule that the input breaks
// or the thing that breaks it.
const namesRule = `\bmust\b|\bcannot\b|\brequired\b|\bthis\b`

// allowedTexts are texts that may have one of the words.
var allowedTexts = []string{
	`connection refused|refused the connection|ECONNREFUSED`, // the operating system's term
	`(most|some|all|both|many|each|none|either) of which`,
	`told apart`,
}

// TestWords finds private words and unclear error texts. To list the findings of one package, run:
//
//	go test ./internal/house -run Words -v -args -package=server
func TestWords(t *testing.T) {
	findings, err := scanWords(os.DirFS(filepath.Join("..", "..")))
	if err != nil {
		t.Fatal(err)
	}
	counts := make(map[string]int)
	for _, f := range findings {
		dir := parent(f.file)
		switch {
		case *onlyPackage != "":
			if dir == *onlyPackage || strings.HasPrefix(dir, *onlyPackage+"/") {
				t.Log(f)
			}
		case !slices.ContainsFunc(pending, func(p string) bool { return dir == p || strings.HasPrefix(dir, p+"/") }):
			t.Error(f)
		}
		counts[dir]++
	}
	if *onlyPackage == "" && testing.Verbose() {
		var lines []string
		for _, dir := range slices.Sorted(maps.Keys(counts)) {
			lines = append(lines, fmt.Sprintf("%5d %s", counts[dir], dir))
		}
		t.Logf("%d findings; go test ./internal/house -run Words -v -args -package=DIR lists those of a directory\n%s",
			len(findings), strings.Join(lines, "\n"))
	}
}
