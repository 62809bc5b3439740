package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"
)

// finding is a place that breaks a language rule.
type finding struct {
	file    string // from the root of the project, with slashes
	line    int    // 0 for the name of the file
	what    string
	instead string
}

func (f finding) String() string {
	return fmt.Sprintf("%s:%d: %s; write: %s", f.file, f.line, f.what, f.instead)
}

// notOurs are the directories with files of other projects.
var notOurs = []string{"internal/spec/testdata"}

// isText reports whether the rules apply to the content of a file.
func isText(name string) bool {
	switch path.Ext(name) {
	case ".go", ".md", ".mjs", ".yaml", ".html", ".css", ".txtar", ".bash", ".work", ".mod":
		return true
	case "":
		return path.Base(name) != "LICENSE" && path.Base(name) != "NOTICE"
	}
	return false
}

// scanWords returns the findings in the whole tree.
func scanWords(tree fs.FS) ([]finding, error) {
	var findings []finding
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(name)
		if entry.IsDir() {
			hidden := strings.HasPrefix(base, ".") && name != "." && name != ".ci"
			if hidden || base == "node_modules" || base == "fuzz" || contains(notOurs, name) {
				return fs.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() || strings.HasPrefix(name, "internal/house/words") || strings.HasPrefix(base, ".") {
			return nil
		}
		s := wordScanner{file: name}
		s.name(0, strings.TrimSuffix(base, path.Ext(base)), "file name")
		if isText(name) {
			source, err := fs.ReadFile(tree, name)
			if err != nil {
				return err
			}
			if err := s.scan(source); err != nil {
				return err
			}
		}
		findings = append(findings, s.findings...)
		return nil
	})
	return findings, err
}

func contains(list []string, name string) bool {
	for _, element := range list {
		if element == name {
			return true
		}
	}
	return false
}

// wordScanner collects the findings of one file.
type wordScanner struct {
	file     string
	findings []finding
}

func (s *wordScanner) scan(source []byte) error {
	if path.Ext(s.file) == ".go" {
		return s.scanGo(source)
	}
	for i, line := range strings.Split(string(source), "\n") {
		s.prose(i+1, line, "text")
	}
	return nil
}

func (s *wordScanner) scanGo(source []byte) error {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, s.file, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	line := func(n ast.Node) int { return set.Position(n.Pos()).Line }
	for _, group := range f.Comments {
		s.comment(set, group)
	}
	imported := make(map[string]bool)
	for _, spec := range f.Imports {
		target, _ := strconv.Unquote(spec.Path.Value)
		imported[path.Base(target)] = true
		if spec.Name != nil {
			imported[spec.Name.Name] = true
		}
	}
	ours := func(e ast.Expr) bool { // whether a selector may be of our own
		x, ok := e.(*ast.Ident)
		return !ok || !imported[x.Name]
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.SelectorExpr:
			if !ours(n.X) {
				return false
			}
		case *ast.Ident:
			s.name(line(n), n.Name, "identifier")
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				s.prose(line(n), literal(n), "string")
			}
		case *ast.CallExpr:
			if makesError(n.Fun) && !strings.HasSuffix(s.file, "_test.go") {
				for _, argument := range n.Args {
					if l, ok := argument.(*ast.BasicLit); ok && l.Kind == token.STRING {
						s.fault(line(l), literal(l))
					}
				}
			}
		case *ast.KeyValueExpr:
			key, isName := n.Key.(*ast.Ident)
			l, isLiteral := n.Value.(*ast.BasicLit)
			if isName && isLiteral && l.Kind == token.STRING && (key.Name == "Message" || key.Name == "Reason") && !strings.HasSuffix(s.file, "_test.go") {
				s.fault(line(l), literal(l))
			}
		}
		return true
	})
	return nil
}

func literal(l *ast.BasicLit) string {
	text, _ := strconv.Unquote(l.Value)
	return text
}

// makesError reports whether a function makes an error from a text, by its name.
func makesError(function ast.Expr) bool {
	switch function := function.(type) {
	case *ast.Ident:
		return strings.Contains(strings.ToLower(function.Name), "error")
	case *ast.SelectorExpr:
		x, ok := function.X.(*ast.Ident)
		return strings.Contains(function.Sel.Name, "Error") || ok && x.Name == "errors" && function.Sel.Name == "New"
	}
	return false
}

// comment checks a comment as one text, because phrases go over the ends of lines.
func (s *wordScanner) comment(set *token.FileSet, group *ast.CommentGroup) {
	var text strings.Builder
	var ends []int // the end of each line in text
	for _, c := range group.List {
		if !strings.HasPrefix(c.Text, "//go:") {
			text.WriteString(strings.TrimLeft(strings.TrimPrefix(c.Text, "//"), " \t") + " ")
		}
		ends = append(ends, text.Len())
	}
	first := set.Position(group.Pos()).Line
	s.proseAt(text.String(), "comment", func(offset int) int {
		for i, end := range ends {
			if offset < end {
				return first + i
			}
		}
		return first
	})
}

func (s *wordScanner) prose(line int, text, where string) {
	s.proseAt(text, where, func(offset int) int { return line + strings.Count(text[:offset], "\n") })
}

var (
	forms         = formsByWord()
	anyWord       = regexp.MustCompile(`[A-Za-z]+`)
	address       = regexp.MustCompile(`https?://\S+`)
	anyAllowed    = regexp.MustCompile(strings.Join(allowedTexts, "|"))
	anyRule       = regexp.MustCompile(namesRule)
	phraseRegexps = compile(phrases, `(?i)(?:\b|\s|^)(?:%s)`, `\b`)
	anyPhrase     = regexp.MustCompile(joined(phraseRegexps)) // one pass for most texts
	faultRegexps  = compile(faults, `%s`, ``)
)

func formsByWord() map[string]word {
	byForm := make(map[string]word)
	for _, w := range words {
		for form := range strings.FieldsSeq(w.forms) {
			byForm[form] = w
		}
	}
	return byForm
}

func compile(phrases []phrase, format, end string) []*regexp.Regexp {
	var all []*regexp.Regexp
	for _, p := range phrases {
		pattern := fmt.Sprintf(format, p.pattern)
		if !strings.HasSuffix(p.pattern, "$)") {
			pattern += end
		}
		all = append(all, regexp.MustCompile(pattern))
	}
	return all
}

func joined(regexps []*regexp.Regexp) string {
	var patterns []string
	for _, r := range regexps {
		patterns = append(patterns, r.String())
	}
	return strings.Join(patterns, "|")
}

func (s *wordScanner) proseAt(text, where string, lineAt func(offset int) int) {
	blank := func(match string) string { return strings.Repeat(" ", len(match)) }
	text = anyAllowed.ReplaceAllStringFunc(address.ReplaceAllStringFunc(text, blank), blank)
	for _, at := range anyWord.FindAllStringIndex(text, -1) {
		if w, found := forms[strings.ToLower(text[at[0]:at[1]])]; found && !w.names && s.in(w.dir) {
			s.found(lineAt(at[0]), fmt.Sprintf("%s has the word %q in %q", where, text[at[0]:at[1]], around(text, at)), w.instead)
		}
	}
	if !anyPhrase.MatchString(text) {
		return
	}
	for i, r := range phraseRegexps {
		for _, at := range r.FindAllStringIndex(text, -1) {
			s.found(lineAt(at[0]), fmt.Sprintf("%s has the phrase %q in %q", where, text[at[0]:at[1]], around(text, at)), phrases[i].instead)
		}
	}
}

// around returns a place in a text with some of the text before and after it.
func around(text string, at []int) string {
	from, to := max(0, at[0]-30), min(len(text), at[1]+30)
	return strings.Join(strings.Fields(string(bytes.ToValidUTF8([]byte(text[from:to]), nil))), " ")
}

// name checks the parts of an identifier or a file name.
func (s *wordScanner) name(line int, name, where string) {
	for _, part := range nameParts(name) {
		if w, found := forms[part]; found && s.in(w.dir) {
			s.found(line, fmt.Sprintf("%s %s has the word %q", where, name, part), w.instead)
		}
	}
}

func (s *wordScanner) fault(line int, text string) {
	if anyRule.MatchString(text) {
		return
	}
	for i, r := range faultRegexps {
		if r.MatchString(text) {
			s.found(line, fmt.Sprintf("error text %q has an unclear form", text), faults[i].instead)
			return
		}
	}
}

func (s *wordScanner) in(dir string) bool { return dir == "" || strings.HasPrefix(s.file, dir+"/") }

func (s *wordScanner) found(line int, what, instead string) {
	s.findings = append(s.findings, finding{s.file, line, what, instead})
}

// nameParts returns the words of a name in lower case, as in HTTPServer, max_size or check-install.
func nameParts(name string) []string {
	var parts []string
	runes := []rune(name)
	begin := 0
	end := func(i int) {
		if i > begin {
			parts = append(parts, strings.ToLower(string(runes[begin:i])))
		}
		begin = i
	}
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r):
			end(i)
			begin = i + 1
		case i > begin && unicode.IsUpper(r) && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])):
			end(i)
		}
	}
	end(len(runes))
	return parts
}

func TestWordsAreFoundInNamesAndTexts(t *testing.T) {
	findings, err := scanWords(fstest.MapFS{
		"server/voices.go": {Data: []byte("package server\n\nimport \"net\"\n\n" +
			"// The client is\n// told about a\n// Heartbeat; see https://example.com/visit.\n" +
			"func holdVoice() error {\n\tnet.Hold()\n\treturn errors.New(\"connection refused: nobody answers\")\n}\n\n" +
			"var a, b, c = fmt.Errorf(\"a batch is not empty\"), fmt.Errorf(\"name must be at most %d\"), errors.New(\"4 at most\")\n")},
		"server/server_test.go":                {Data: []byte("package server\n\nvar err = errors.New(\"a batch is not empty\")\n")},
		"schema/s.go":                          {Data: []byte("package schema\n\n// It holds a lock, see below.\nvar below int\n")},
		"README.md":                            {Data: []byte("# Title\n\nWhoever calls.\n")},
		"interop/node_modules/a/voice.md":      {Data: []byte("voice\n")},
		"internal/spec/testdata/voice.md":      {Data: []byte("voice\n")},
		"internal/house/words_test.go":         {Data: []byte("not read")},
		"cmd/parley/testdata/script/up.txtar":  {Data: []byte("stderr 'as it is.'\n")},
		"cmd/parley/testdata/script/image.png": {Data: []byte("voice\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range findings {
		got = append(got, fmt.Sprintf("%s:%d %s", f.file, f.line, f.instead))
	}
	want := []string{
		"README.md:3 the client, the caller, …",
		"cmd/parley/testdata/script/up.txtar:1 unchanged",
		"schema/s.go:4 child applicators",
		"server/voices.go:0 notifier",
		"server/voices.go:5 receives, is notified",
		"server/voices.go:8 pause",
		"server/voices.go:8 notifier",
		"server/voices.go:10 no client, no caller, …",
		"server/voices.go:13 X must be Y; cannot X: reason",
		"server/voices.go:13 too many X: %d, the limit is %d; X must have at most %d",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

func TestNamesAreSplitIntoWords(t *testing.T) {
	for name, want := range map[string]string{
		"HTTPServer":    "http server",
		"serveHTTP":     "serve http",
		"max_size":      "max size",
		"check-install": "check install",
		"a1B":           "a b",
		"J14":           "j",
		"URLs":          "ur ls",
	} {
		if got := strings.Join(nameParts(name), " "); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
