// Package serverjson checks server.json files, with which servers are published in an MCP registry. It knows the form
// of the schema 2025-12-11, and the rules of the official registry that need no network.
package serverjson

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/cmd/parley/internal/nearest"
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
	f := &Finding{Level: Problem, Line: 1, Text: "file must be JSON: " + err.Error(),
		Fix: "correct the syntax; server.json has no comments and no trailing commas"}
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
		text, fix := "expected "+issue.Expected+", got "+issue.Got,
			fixes[issue.Path[strings.LastIndexByte(issue.Path, '/')+1:]]
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

// SchemaID is the URI of the current schema.
const SchemaID = schemaPrefix + current + schemaSuffix

const (
	schemaPrefix = "https://static.modelcontextprotocol.io/schemas/"
	schemaSuffix = "/server.schema.json"
	current      = "2025-12-11"
)

// versions are those of the schema before the current one.
var versions = []string{"2025-07-09", "2025-09-16", "2025-09-29", "2025-10-11", "2025-10-17"}

const (
	publisherKey = "io.modelcontextprotocol.registry/publisher-provided"
	maxPublisher = 4096 // bytes of its value
)

// checkServer checks the whole file.
func (p place) checkServer() {
	p.only("$schema", "name", "title", "description", "version", "websiteUrl", "repository", "icons", "packages",
		"remotes", "_meta")
	p.member("$schema").checkSchema()
	p.member("name").checkName()
	p.member("version").checkVersion()
	if title := p.member("title"); title.text() != "" && strings.TrimSpace(title.text()) == "" {
		title.problem("title must have a character that is not white space", "write a title, or remove the member")
	}
	p.member("websiteUrl").checkHTTPS()
	p.member("repository").checkRepository()
	for _, icon := range p.member("icons").elements() {
		icon.only("src", "mimeType", "sizes", "theme")
		icon.member("src").checkHTTPS()
	}
	for _, pkg := range p.member("packages").elements() {
		pkg.checkPackage()
	}
	for _, remote := range p.member("remotes").elements() {
		remote.checkRemote()
	}
	if len(p.member("packages").elements())+len(p.member("remotes").elements()) == 0 {
		p.warning("server has no packages and no remotes, so that no client can use it",
			"add packages that clients run, or remotes that they connect to")
	}
	p.member("_meta").checkMeta()
}

// checkSchema checks the version of the schema.
func (p place) checkSchema() {
	id := p.text()
	version := strings.TrimSuffix(strings.TrimPrefix(id, schemaPrefix), schemaSuffix)
	switch {
	case id == "" || id == SchemaID:
	case id == schemaPrefix+version+schemaSuffix && slices.Contains(versions, version):
		p.warning("schema "+version+" is old; the current one is "+current, fixes["$schema"])
	case strings.HasPrefix(id, schemaPrefix) && id > SchemaID:
		p.warning("schema is newer than "+current+", which parley knows, so that findings can be missing or wrong",
			"use a newer version of parley")
	default:
		p.problem("schema is unknown", fixes["$schema"])
	}
}

// The forms of texts.
var (
	nameForm = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9.-]*[a-zA-Z0-9]/[a-zA-Z0-9][a-zA-Z0-9._-]*[a-zA-Z0-9]$`)
	// rangeForm matches ^1.2, 1 - 2, 1.2 || 1.3 and 1.x.
	rangeForm      = regexp.MustCompile(`^[\^~<>= ]*[\^~<>=] *v?\d|\|\|| - |^v?\d+(\.v?\d+)?\.[xX*](-|\.|$)`)
	repositoryForm = map[string]*regexp.Regexp{
		"github": regexp.MustCompile(`^https?://(www\.)?github\.com/[\w.-]+/[\w.-]+/?$`),
		"gitlab": regexp.MustCompile(`^https?://(www\.)?gitlab\.com(/[\w.-]+){2,}/?$`),
	}
	pathForm = regexp.MustCompile(`^[\w.-]+(/[\w.-]+)*$`)
)

// checkName checks the name of the server: a namespace in reverse-DNS form, a slash and a name.
func (p place) checkName() {
	namespace, _, _ := strings.Cut(p.text(), "/")
	switch {
	case p.text() == "":
	case !nameForm.MatchString(p.text()):
		p.problem("name must be a namespace, one slash and a name, each of two or more letters, digits, dots and "+
			"hyphens that begin and end with a letter or digit", fixes["name"])
	case !strings.Contains(namespace, "."):
		p.warning("namespace is not a domain in reverse order, so that no user can prove to own it", fixes["name"])
	}
}

// checkVersion checks that a version is a single one.
func (p place) checkVersion() {
	switch {
	case p.text() == "latest":
		p.problem(`version must not be "latest"`, fixes["version"])
	case rangeForm.MatchString(p.text()):
		p.problem("version must not be a range", fixes["version"])
	}
}

// checkHTTPS checks an absolute URL.
func (p place) checkHTTPS() {
	if p.text() == "" {
		return
	}
	if u, err := url.Parse(p.text()); err != nil || u.Scheme != "https" || u.Host == "" {
		p.problem("URL must begin with https:// and have a host", "")
	}
}

func (p place) checkRepository() {
	p.only("url", "source", "id", "subfolder")
	source, address, folder := p.member("source"), p.member("url"), p.member("subfolder")
	form := repositoryForm[source.text()]
	switch {
	case source.text() == "" || address.text() == "":
	case form == nil:
		source.problem("source must be github or gitlab", "leave the repository out if its source code is elsewhere")
	case !form.MatchString(address.text()):
		address.problem("URL must be that of a repository at "+source.text()+".com",
			"write https://"+source.text()+".com/OWNER/REPOSITORY")
	}
	if text := folder.text(); text != "" && (text == "." || !fs.ValidPath(text) || !pathForm.MatchString(text)) {
		folder.problem("subfolder must be a relative path of letters, digits, dots, hyphens and underscores, "+
			"without . and .. in it", "write a path such as src/server")
	}
}

// checkMeta checks the metadata of the publisher.
func (p place) checkMeta() {
	for _, name := range p.names() {
		if name != publisherKey {
			p.member(name).warning("the official registry drops this member", "move it into "+publisherKey)
		}
	}
	provided := p.member(publisherKey)
	if text, err := json.Marshal(provided.value); err == nil && len(text) > maxPublisher {
		provided.problem(fmt.Sprintf("value must have at most %d bytes of JSON, but has %d", maxPublisher, len(text)),
			"shorten it")
	}
}

// only warns of members other than those that are known.
func (p place) only(known ...string) {
	for _, name := range p.names() {
		if slices.Contains(known, name) {
			continue
		}
		fix := ""
		if near := nearest.Name(strings.ReplaceAll(name, "_", ""), known); near != "" {
			fix = "rename it to " + near
		}
		p.member(name).warning("member has no effect", fix)
	}
}
