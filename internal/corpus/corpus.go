package corpus

import (
	"embed"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

//go:embed testdata
var files embed.FS

// Case is one input and its expected outcomes.
type Case struct {
	Name  string
	Place string // the file and line of the case
	Input string // as written; see Bytes

	value    string // replaces <<v>> in the input
	result   string // replaces <<v>> in the outcomes; empty if the value contains fragments
	outcomes []outcome
}

// outcome is the expected outcome of a case under a condition.
type outcome struct {
	tags []string // all must apply
	text string
}

// tags lists the words that conditions may use.
var tags = []string{
	"legacy", "modern", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28",
	"memory", "stream", "http", "pair", "gateway", "json", "windows", "linux",
}

// Cases returns the cases of a file under testdata, such as "server/ids". It fails the test if the file is malformed.
func Cases(t testing.TB, name string) []Case {
	t.Helper()
	text, err := files.ReadFile(path.Join("testdata", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	cases, err := parse(name, string(text))
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

// Files returns the names of all files for Cases.
func Files(t testing.TB) []string {
	t.Helper()
	var names []string
	folders, err := files.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		entries, err := files.ReadDir(path.Join("testdata", folder.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			names = append(names, folder.Name()+"/"+strings.TrimSuffix(entry.Name(), ".txt"))
		}
	}
	return names
}

// Want returns the outcome that is expected where the tags apply: the last outcome whose condition holds, with the
// value of the case in place of <<v>>. It returns "" if the case does not apply there.
func (c Case) Want(tags ...string) string {
	for _, o := range slices.Backward(c.outcomes) {
		if !slices.ContainsFunc(o.tags, func(tag string) bool { return !slices.Contains(tags, tag) }) {
			return strings.ReplaceAll(o.text, "<<v>>", c.result)
		}
	}
	return ""
}

// Bytes returns the input with the expressions in << >> replaced. fragments contains further expressions by
// name.
func (c Case) Bytes(t testing.TB, fragments map[string]string) []byte {
	t.Helper()
	text, err := expand(strings.ReplaceAll(c.Input, "<<v>>", c.value), fragments)
	if err != nil {
		t.Fatalf("%s: %v", c.Place, err)
	}
	return []byte(text)
}

// Text returns Bytes without fragments, as a string.
func (c Case) Text(t testing.TB) string {
	t.Helper()
	return string(c.Bytes(t, nil))
}

// expand replaces the expressions in text.
func expand(text string, fragments map[string]string) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "<<")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		expression, after, found := strings.Cut(rest, ">>")
		if !found {
			return "", fmt.Errorf("expression must end with >>: %.40q", rest)
		}
		value, err := evaluate(expression, fragments)
		if err != nil {
			return "", err
		}
		b.WriteString(value)
		text = after
	}
}

func evaluate(expression string, fragments map[string]string) (string, error) {
	if value, ok := fragments[expression]; ok {
		return expand(value, fragments)
	}
	verb, argument, _ := strings.Cut(expression, " ")
	switch verb {
	case "hex":
		raw, err := hex.DecodeString(strings.ReplaceAll(argument, " ", ""))
		return string(raw), err
	case "repeat":
		count, unit, _ := strings.Cut(argument, " ")
		n, err := strconv.Atoi(count)
		if err != nil || n < 0 || n*len(unit) > 64<<20 {
			return "", fmt.Errorf("<<%.40s>> must have a count and a text of at most 64 MiB in total", expression)
		}
		return strings.Repeat(unit, n), nil
	case "numbers": // for objects with many keys and arrays with many elements: %d is the number
		count, unit, _ := strings.Cut(argument, " ")
		n, err := strconv.Atoi(count)
		if err != nil || n < 0 || n > 2_000_000 {
			return "", fmt.Errorf("<<%.40s>> must have a count of at most 2,000,000 and a text", expression)
		}
		var b strings.Builder
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(strings.ReplaceAll(unit, "%d", strconv.Itoa(i)))
		}
		return b.String(), nil
	}
	return "", fmt.Errorf("unknown expression <<%.40s>>", expression)
}
