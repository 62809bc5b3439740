// Package serverjson checks server.json files, with which servers are published in an MCP registry. It knows the form of the
// schema 2025-12-11, and the rules of the official registry that need no network.
package serverjson

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/schema"
)

// MaxFile is the maximum size of a file in bytes.
const MaxFile = 1 << 20

// maxFindings limits the findings of a file.
const maxFindings = 100

// Level is the weight of a finding.
type Level string

// Levels of findings.
const (
	Problem Level = "problem" // the registry rejects the file
	Warning Level = "warning"
)

// Finding is a fault of a file.
type Finding struct {
	Level Level  `json:"level"`
	Path  string `json:"path"`          // a JSON Pointer (RFC 6901); empty for the whole file
	Line  int    `json:"line"`          // of the value, or of the object that lacks it
	Text  string `json:"text"`          // without the path
	Fix   string `json:"fix,omitempty"` // what to do; empty if the text says it
}

//go:embed schema.json
var form []byte

var compiled = sync.OnceValues(func() (*schema.Schema, error) { return schema.Compile(form) })

// Check returns the faults of a file in the order of its lines, at most 100.
func Check(file []byte) ([]Finding, error) {
	if len(file) > MaxFile {
		return nil, fmt.Errorf("file is too large: the limit is %d bytes", MaxFile)
	}
	lines, err := linesOf(file)
	if err != nil {
		return []Finding{*syntaxFinding(file, err)}, nil
	}
	c := &checker{lines: lines}
	if err := c.checkForm(file); err != nil {
		return nil, err
	}
	var value any
	if err := json.Unmarshal(file, &value); err != nil {
		return nil, err
	}
	place{c, "", value}.checkServer()
	sort.SliceStable(c.findings, func(i, j int) bool { return c.findings[i].Line < c.findings[j].Line })
	return c.findings, nil
}

// linesOf returns the line of each value of a JSON text by its JSON Pointer.
func linesOf(file []byte) (map[string]int, error) {
	lines := make(map[string]int)
	d := jsontext.NewDecoder(bytes.NewReader(file))
	line, counted := 1, 0
	for {
		token, err := d.ReadToken()
		if err == io.EOF && len(lines) > 0 {
			return lines, nil
		}
		if err != nil {
			return nil, err
		}
		end := int(d.InputOffset())
		line += bytes.Count(file[counted:end], []byte("\n"))
		counted = end
		if kind, length := d.StackIndex(d.StackDepth()); kind == '{' && length%2 == 1 && token.Kind() == '"' {
			continue // the name of a member, whose pointer the value has
		}
		if pointer := string(d.StackPointer()); lines[pointer] == 0 {
			lines[pointer] = line
		}
	}
}

// syntaxFinding returns the finding of a file that is not JSON.
func syntaxFinding(file []byte, err error) *Finding {
	f := &Finding{Level: Problem, Line: 1, Text: "file must be JSON: " + err.Error(), Fix: "correct the syntax; server.json has no comments and no trailing commas"}
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		f.Path = string(syntactic.JSONPointer)
		f.Text = "file must be JSON: " + syntactic.Err.Error()
		f.Line += bytes.Count(file[:min(int(syntactic.ByteOffset), len(file))], []byte("\n"))
		if errors.Is(err, jsontext.ErrDuplicateName) {
			f.Text, f.Fix = "member is given twice", "remove one of them"
		}
	}
	return f
}

// checker collects the findings of a file.
type checker struct {
	lines    map[string]int
	findings []Finding
}

// add adds a finding. Without a value at the path, the line is that of the object that lacks it.
func (c *checker) add(level Level, path, text, fix string) {
	if len(c.findings) >= maxFindings {
		return
	}
	at := path
	for c.lines[at] == 0 && at != "" {
		at = at[:strings.LastIndexByte(at, '/')]
	}
	c.findings = append(c.findings, Finding{Level: level, Path: path, Line: max(c.lines[at], 1), Text: text, Fix: fix})
}

// checkForm adds the findings of the schema.
func (c *checker) checkForm(file []byte) error {
	s, err := compiled()
	if err != nil {
		return err
	}
	var invalid *schema.ValidationError
	err = s.Validate(file)
	if !errors.As(err, &invalid) {
		return err
	}
	for _, issue := range invalid.Issues {
		text, fix := "expected "+issue.Expected+", got "+issue.Got, fixes[issue.Path[strings.LastIndexByte(issue.Path, '/')+1:]]
		if strings.HasPrefix(issue.Got, "nothing") {
			text, fix = "required member is missing", "add it"+strings.TrimSuffix("; "+fix, "; ")
		}
		c.add(Problem, issue.Path, text, fix)
	}
	return nil
}

// fixes says how to write some members.
var fixes = map[string]string{
	"$schema":      `write "` + SchemaID + `"`,
	"name":         "write a namespace that you own and a name, such as io.github.USER/NAME",
	"description":  "say in at most 100 characters what the server does",
	"version":      "write one version, such as 1.0.2",
	"registryType": "write npm, pypi, nuget, cargo, go, oci or mcpb",
	"identifier":   "write the name of the package, or the URL of an MCP bundle",
	"fileSha256":   "write the SHA-256 digest of the file in 64 lower-case hexadecimal digits, as sha256sum prints it",
	"transport":    `write {"type": "stdio"}, or another type with a url`,
	"source":       "write github or gitlab",
}

// place is a value of a file, or the place of a value that is missing.
type place struct {
	c     *checker
	path  string
	value any
}

func (p place) problem(text, fix string) { p.c.add(Problem, p.path, text, fix) }

func (p place) warning(text, fix string) { p.c.add(Warning, p.path, text, fix) }

// exists reports whether there is a value.
func (p place) exists() bool { return p.value != nil }

// text returns a string, or "" for another value.
func (p place) text() string {
	text, _ := p.value.(string)
	return text
}

// isTrue reports whether the value is true.
func (p place) isTrue() bool { return p.value == true }

// member returns the place of a member of an object.
func (p place) member(name string) place {
	object, _ := p.value.(map[string]any)
	return place{p.c, p.path + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name), object[name]}
}

// names returns the names of the members of an object, in alphabetical order.
func (p place) names() (names []string) {
	object, _ := p.value.(map[string]any)
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// elements returns the places of the elements of an array.
func (p place) elements() (all []place) {
	array, _ := p.value.([]any)
	for i, value := range array {
		all = append(all, place{p.c, p.path + "/" + strconv.Itoa(i), value})
	}
	return all
}
