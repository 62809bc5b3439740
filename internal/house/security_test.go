package house

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

// A comment in a test names the rules that it tests: "Rule O8." or "Rules T1, T2: the origin is checked." The IDs
// come from securityRules.

func TestSecurityRulesHaveTests(t *testing.T) {
	found := must.Get(rulesTested(os.DirFS("../..")))(t)
	for _, problem := range checkRules(securityRules, found) {
		t.Error(problem)
	}
}

// checkRules compares the table with the files that test each rule, and returns the differences.
func checkRules(rules []securityRule, found map[string][]string) []string {
	var problems []string
	for _, r := range rules {
		switch where := found[r.id]; {
		case r.awaits == "" && len(where) == 0:
			problems = append(problems, fmt.Sprintf("%s needs a test that names it: %s", r.id, r.text))
		case r.awaits != "" && len(where) > 0:
			problems = append(problems, fmt.Sprintf("%s has tests in %s: remove %q from its entry", r.id,
				strings.Join(where, ", "), r.awaits))
		}
	}
	return problems
}

// rulesTested returns the files that test each rule of the table.
func rulesTested(tree fs.FS) (map[string][]string, error) {
	known := make(map[string]bool)
	for _, r := range securityRules {
		known[r.id] = true
	}
	found := make(map[string]map[string]bool)
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(name)
		switch {
		case entry.IsDir() && name != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") ||
			base == "testdata" || base == "node_modules"):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(base, "_test.go"):
			return nil
		}
		source, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		if name == "internal/house/security_test.go" {
			return nil
		}
		ids := rulesNamed(source)
		for _, id := range ids {
			if !known[id] {
				return fmt.Errorf("%s names rule %s, which the table does not have", name, id)
			}
			if found[id] == nil {
				found[id] = make(map[string]bool)
			}
			found[id][name] = true
		}
		return nil
	})
	files := make(map[string][]string)
	for id, names := range found {
		files[id] = slices.Sorted(maps.Keys(names))
	}
	return files, err
}

var (
	namedRules = regexp.MustCompile(`//.*?\b[Rr]ules? ([A-Z][0-9]{1,2}(?:, [A-Z][0-9]{1,2})*)\b`)
	oneID      = regexp.MustCompile(`[A-Z][0-9]{1,2}`)
)

// rulesNamed returns the ids of rules that the comments of a test name.
func rulesNamed(source []byte) []string {
	var ids []string
	for _, match := range namedRules.FindAllSubmatch(source, -1) {
		ids = append(ids, oneID.FindAllString(string(match[1]), -1)...)
	}
	return ids
}

func TestSecurityRulesAreNumberedWithoutGaps(t *testing.T) {
	last := make(map[string]int)
	for _, r := range securityRules {
		letter := r.id[:1]
		number := must.Get(strconv.Atoi(r.id[1:]))(t)
		must.CheckEqual(t, number, last[letter]+1, r.id, letter, last[letter])
		last[letter] = number
		must.CheckThat(t, r.text != "", "%s has no text", r.id)
	}
	want := map[string]int{"J": 18, "V": 7, "T": 24, "U": 8, "S": 8, "R": 15, "O": 18, "P": 8, "H": 12, "Y": 6, "M": 4,
		"C": 1, "N": 1, "K": 6, "W": 2}
	must.CheckThat(t, maps.Equal(last, want), "last numbers: %v, want %v", last, want)
}

func TestRulesAreFoundInComments(t *testing.T) {
	ids := rulesNamed([]byte(`package x

// Rules J2, J3: both.
func TestOriginIsChecked(t *testing.T) {
	f() // Rule U5: at the end of a line
	// This test has nothing to do with S1, and T9A is not an id. Rule T9A is none either.
}

// A sentence (rule Y2).
// Rule V4.
func TestUTF8IsKept(t *testing.T) {}
`))
	must.CheckEqual(t, strings.Join(ids, " "), "J2 J3 U5 Y2 V4")
}

func TestSecurityRulesAreComparedWithTests(t *testing.T) {
	rules := []securityRule{{"T1", "a", ""}, {"T2", "b", ""}, {"T3", "c", "tasks"}, {"T4", "d", "tasks"}}
	problems := checkRules(rules, map[string][]string{"T1": {"x_test.go"}, "T3": {"y_test.go"}})
	must.CheckThat(t, len(problems) == 2 && strings.Contains(problems[0], "T2") && strings.Contains(problems[1], "T3"),
		"%q", problems)
}

var testReference = regexp.MustCompile("`([a-z0-9/]+)\\.(Test[A-Za-z0-9]+)(?:/([^`]+))?`")

// Each deviation that Parley tolerates has a test, and the page names only tests and cases that exist.
func TestCompatibilityPageNamesTests(t *testing.T) {
	page := must.Get(os.ReadFile("../../interop/COMPATIBILITY.md"))(t)
	tolerated := 0
	rejected := false
	for line := range strings.SplitSeq(string(page), "\n") {
		rejected = rejected || line == "## Rejected on purpose"
		references := testReference.FindAllStringSubmatch(line, -1)
		switch row := strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| Peer |"); {
		case strings.Count(line, ".Test") != len(references) || !row && len(references) > 0:
			t.Errorf("references to tests must be in a table, as `package.TestName/case`: %s", line)
		case row && !rejected && len(references) == 0:
			t.Errorf("a tolerated deviation must have a test: %s", line)
		case row && !rejected:
			tolerated++
		}
		for _, r := range references {
			must.CheckThat(t, hasTest(t, r[1], r[2], r[3]), "%s has no test %s with the case %q", r[1], r[2], r[3])
		}
	}
	must.CheckThat(t, tolerated >= 40, "the page has %d tolerated deviations, want at least 40", tolerated)
}

// hasTest reports whether the package in a directory contains a test and, if named is not empty, a case in
// it.
func hasTest(t *testing.T, dir, test, named string) bool {
	t.Helper()
	names := must.Get(filepath.Glob(filepath.Join("../..", dir, "*_test.go")))(t)
	return slices.ContainsFunc(names, func(name string) bool {
		source, err := os.ReadFile(name)
		return err == nil && strings.Contains(string(source), "\nfunc "+test+"(t *testing.T)") &&
			(named == "" || strings.Contains(string(source), strconv.Quote(strings.ReplaceAll(named, "_", " "))))
	})
}
