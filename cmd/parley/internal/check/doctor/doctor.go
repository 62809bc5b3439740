// Package doctor examines an MCP server: whether it can be reached, which revisions it supports, whether web pages and
// lost sessions harm its clients, and whether models can use its definitions. Each finding says what to do.
package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/failure"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/use/toolargs"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// Level is the importance of a finding.
type Level string

// The levels.
const (
	OK      Level = "ok"      // the server does what clients expect
	Note    Level = "note"    // worth knowing
	Warning Level = "warning" // some clients or models will have trouble
	Problem Level = "problem" // the server cannot be used, or is unsafe
)

// Finding is the result of one check.
type Finding struct {
	Check string `json:"check"` // the subject, such as "revisions" or "origin"
	Level Level  `json:"level"`
	Text  string `json:"text"`
	Fix   string `json:"fix,omitempty"` // what to do
}

// Print prints a finding, and what to do on a second line.
func Print(w io.Writer, f Finding) error {
	text := fmt.Sprintf("%-8s %-13s %s\n", f.Level, f.Check, terminal.Line(f.Text))
	if f.Fix != "" {
		text += fmt.Sprintf("%-8s %-13s → %s\n", "", "", terminal.Line(f.Fix))
	}
	_, err := io.WriteString(w, text)
	return err
}

// Examination examines one server. Its methods must not be called concurrently.
type Examination struct {
	// Dialer connects to the server. The Examination changes Revision, Timeouts and Logger of copies only.
	Dialer client.Dialer
	Target client.Target
	// Connect connects to the server with the Dialer, for the first time. Nil: Dialer.Dial.
	Connect func(context.Context) (*client.Client, error)
	// Report is called with each finding, in the order of the checks.
	Report func(Finding)
	// Explain returns the text of an error, with advice. Nil: the error's own text.
	Explain func(error) string
	// Status returns the stored login for the URL of the server; nil means that the user is not logged in. Without
	// Status, the login is not examined.
	Status func(ctx context.Context) (*oauth.Status, error)

	// For tests.
	now   func() time.Time                      // nil: time.Now
	grace time.Duration                         // 0: exitGrace
	proxy func(*http.Request) (*url.URL, error) // nil: http.ProxyFromEnvironment
}

// requestTimeout limits each request of an examination.
const requestTimeout = 10 * time.Second

// Run examines the server. It returns an error if it cannot connect, and the error of ctx if that ends. Other faults
// are findings only.
func (e *Examination) Run(ctx context.Context) error {
	web, isURL := e.Target.(*client.HTTPTarget)
	if isURL && !e.address(ctx, web.URL) {
		return errors.New("the server cannot be reached")
	}
	c, err := e.connect(ctx)
	if isURL {
		e.authorization(ctx, web, err)
	}
	if err != nil {
		// Of a server that does not answer, everything is known by now.
		if ctx.Err() == nil && !isURL && !errors.Is(err, context.DeadlineExceeded) {
			e.process(ctx, nil)
		}
		return err
	}
	defer c.Close()
	supported := e.revisions(ctx, c)
	if isURL {
		e.endpoint(ctx, web, supported)
	} else {
		e.process(ctx, supported)
	}
	e.catalogue(ctx, c)
	return ctx.Err()
}

// report reports a finding. Fix is empty for findings that need none.
func (e *Examination) report(check string, level Level, fix, format string, args ...any) {
	e.Report(Finding{check, level, fmt.Sprintf(format, args...), fix})
}

// text returns the text of an error.
func (e *Examination) text(err error) string {
	if e.Explain != nil {
		return e.Explain(err)
	}
	return err.Error()
}

// connect connects as every client does, and reports how long that took.
func (e *Examination) connect(ctx context.Context) (*client.Client, error) {
	start := time.Now()
	connect := e.Connect
	if connect == nil {
		connect = func(ctx context.Context) (*client.Client, error) { return e.Dialer.Dial(ctx, e.Target) }
	}
	c, err := connect(ctx)
	took := time.Since(start)
	if err != nil {
		awaitEnd(err)
		e.report("connect", Problem, "", "%s", e.text(err)) // Explain says what to do
		return nil, err
	}
	info := c.Server().Info
	e.report("connect", OK, "", "%s %s answers in revision %s after %v", info.Name, info.Version, c.Revision(),
		terminal.Duration(took))
	if took > 5*time.Second {
		e.report("connect", Warning, "keep the server running, for example with parley bridge --addr or parley up",
			"the first answer takes %v; many clients wait 10 seconds or less", terminal.Duration(took))
	}
	if info.Name == "" || info.Version == "" {
		e.report("connect", Warning, "set name and version in the information about the server",
			"the server has no name or no version")
	}
	if err := c.Ping(ctx); err != nil {
		e.report("connect", Problem, "answer a ping with an empty result", "ping fails: %s", e.text(err))
	}
	return c, nil
}

// awaitEnd waits until the process of a failed attempt to connect has ended.
func awaitEnd(err error) {
	if failed, ok := errors.AsType[*client.DialError](err); ok {
		failed.Wait()
	}
}

// revisions dials the server in each revision, and returns those that it supports, the newest first.
func (e *Examination) revisions(ctx context.Context, c *client.Client) (supported []mcp.Revision) {
	var names, slow []string
	for _, r := range mcp.Revisions() {
		if r == c.Revision() {
			supported, names = append(supported, r), append(names, string(r))
			continue
		}
		d := e.Dialer
		d.Revision = r
		start := time.Now()
		other, err := d.Dial(ctx, e.Target)
		took := terminal.Duration(time.Since(start))
		awaitEnd(err)
		switch {
		case ctx.Err() != nil:
			return supported
		case err == nil:
			other.Close()
			supported, names = append(supported, r), append(names, string(r))
		case !failure.RejectsRevision(err, ""):
			e.report("revisions", Warning,
				"answer requests in revisions that the server does not support with an error that names the "+
					"supported ones", "a client that supports only %s gets no proper answer: %s", r, e.text(err))
		}
		if took > 5*time.Second {
			slow = append(slow, fmt.Sprintf("%s (%v)", r, took))
		}
	}
	e.report("revisions", OK, "", "supports %s", strings.Join(names, ", "))
	if len(slow) > 0 {
		e.report("revisions", Warning, "answer requests with an unknown revision at once", "takes long in %s",
			strings.Join(slow, ", "))
	}
	if len(supported) > 0 && supported[0] < mcp.V20250618 {
		e.report("revisions", Warning, "update the library of the server",
			"supports only revisions before %s, which new clients will drop", mcp.V20250618)
	}
	return supported
}

// What a model should get at most.
const (
	maxCatalogue   = 128 << 10 // bytes of the definitions of all tools; parley up hides them behind a search above it
	bytesPerToken  = 4         // an estimate, for English and JSON
	maxDescription = 4 << 10   // bytes
)

// catalogue examines the lists of a server and the definitions in them.
func (e *Examination) catalogue(ctx context.Context, c *client.Client) {
	has := c.Server().Capabilities
	if has.Tools != nil {
		lintAll(ctx, e, "tool", c.Tools(ctx), e.size, lintTool)
	}
	if has.Prompts != nil {
		lintAll(ctx, e, "prompt", c.Prompts(ctx), nil, lintPrompt)
	}
	if has.Resources != nil {
		lintAll(ctx, e, "resource", c.Resources(ctx), nil, lintResource)
		lintAll(ctx, e, "resource template", c.ResourceTemplates(ctx), nil, lintTemplate)
	}
	if has.Tools == nil && has.Prompts == nil && has.Resources == nil {
		e.report("lists", Warning, "declare the capabilities of the server",
			"the server declares neither tools nor prompts nor resources")
	}
}

// lintAll gets a list, and reports the faults of its definitions after what first reports, which may be nil.
func lintAll[E any](ctx context.Context, e *Examination, noun string, list iter.Seq2[*E, error], first func([]*E),
	check func(*lints, *E)) {
	all := collect(ctx, e, noun, list)
	if first != nil {
		first(all)
	}
	l := &lints{by: make(map[string]*lint), seen: make(map[string]bool)}
	for _, one := range all {
		check(l, one)
	}
	if len(all) > 0 {
		l.report(e, strings.TrimPrefix(noun, "resource ")+"s", "the definitions of the "+noun+"s have no faults")
	}
}

// collect gets a list, and reports its length or the error.
func collect[E any](ctx context.Context, e *Examination, noun string, list iter.Seq2[*E, error]) (all []*E) {
	start := time.Now()
	for entry, err := range list {
		var reported *jsonrpc.Error
		switch {
		case errors.As(err, &reported) && reported.Code == jsonrpc.CodeMethodNotFound:
			e.report("lists", Note, "", "the server has no list of %ss", noun)
			return nil
		case errors.Is(err, client.ErrIncompleteList):
			e.report("lists", Problem, "let each page have another cursor, and the last one none",
				"the list of %ss does not end: %s", noun, e.text(err))
			return all
		case err != nil && ctx.Err() != nil:
			return all
		case err != nil:
			e.report("lists", Problem, "correct the list, or remove the capability", "cannot list the %ss: %s", noun,
				e.text(err))
			return all
		}
		all = append(all, entry)
	}
	took := time.Since(start)
	e.report("lists", OK, "", "%s after %v", terminal.Count(len(all), noun), terminal.Duration(took))
	if took > 2*time.Second {
		e.report("lists", Warning, "cache the list in the server",
			"the list of %ss takes %v; clients wait for it at their start", noun, terminal.Duration(took))
	}
	return all
}

// size examines how much of a model's context the definitions of the tools need.
func (e *Examination) size(tools []*mcp.Tool) {
	size, largest, name := 0, 0, ""
	for _, t := range tools {
		definition, err := json.Marshal(t)
		if err != nil {
			continue // the lints report it
		}
		size += len(definition)
		if len(definition) > largest {
			largest, name = len(definition), t.Name
		}
	}
	if size == 0 {
		return
	}
	level, fix := OK, ""
	if size > maxCatalogue {
		level = Warning
		fix = `offer fewer tools ("tools" in the configuration of parley up), or let models search them ` +
			"(parley up --discover)"
	}
	e.report("size", level, fix,
		"the definitions of the tools need about %d tokens of a model's context (%d KiB); the largest one is %s with "+
			"%d tokens", size/bytesPerToken, (size+1023)>>10, name, largest/bytesPerToken)
}

// lints are faults of definitions, in the order in which they were found: the names of the definitions that have the
// same fault are reported together.
type lints struct {
	order []string
	by    map[string]*lint
	seen  map[string]bool // names

	schemas schema.Budget
}

// again reports whether a definition with the name was seen before.
func (l *lints) again(name string) bool {
	before := l.seen[name]
	l.seen[name] = true
	return before
}

type lint struct {
	level Level
	fix   string
	names []string
}

// add adds a fault of the definition of a name.
func (l *lints) add(level Level, text, fix, name string) {
	if l.by[text] == nil {
		l.by[text] = &lint{level: level, fix: fix}
		l.order = append(l.order, text)
	}
	l.by[text].names = append(l.by[text].names, name)
}

// maxNames is how many names a finding lists.
const maxNames = 5

// report reports the faults, or that there are none.
func (l *lints) report(e *Examination, check, none string) {
	for _, text := range l.order {
		f := l.by[text]
		names := strings.Join(f.names[:min(len(f.names), maxNames)], ", ")
		if more := len(f.names) - maxNames; more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		e.report(check, f.level, f.fix, "%s: %s", text, names)
	}
	if len(l.order) == 0 {
		e.report(check, OK, "", "%s", none)
	}
}

// lintTool examines the definition of a tool (2025-11-25, server/tools).
func lintTool(l *lints, t *mcp.Tool) {
	if l.again(t.Name) {
		l.add(Problem, "several tools have the same name", "give each tool a name of its own", t.Name)
	}
	if !isToolName(t.Name) {
		l.add(Warning, "the name has characters that clients may reject",
			"use 1 to 128 letters, digits, underscores, hyphens and dots", t.Name)
	}
	switch n := len(t.Description); {
	case n == 0:
		l.add(Warning, "a tool has no description; models choose tools by it",
			"describe what the tool does and when to use it", t.Name)
	case n > maxDescription:
		l.add(Note, fmt.Sprintf("a description has more than %d KiB", maxDescription>>10),
			"shorten it; each conversation contains it", t.Name)
	}
	lintInput(l, t)
	if t.OutputSchema != nil {
		lintSchema(l, "output schema", t.Name, t.OutputSchema)
	}
	if a := t.Annotations; a != nil && a.ReadOnlyHint && a.DestructiveHint != nil && *a.DestructiveHint {
		l.add(Warning, "the annotations contradict each other: readOnlyHint and destructiveHint", "set one of them",
			t.Name)
	}
}

func isToolName(name string) bool {
	other := strings.IndexFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-.", r))
	})
	return name != "" && len(name) <= 128 && other < 0
}

// lintInput examines an input schema.
func lintInput(l *lints, t *mcp.Tool) {
	compiled := lintSchema(l, "input schema", t.Name, t.InputSchema)
	if compiled == nil {
		return
	}
	if !compiled.IsObject() {
		l.add(Problem, `the type of the input schema is not "object"`, `set "type": "object"`, t.Name)
	}
	if _, err := schema.Headers(t.InputSchema); err != nil {
		l.add(Problem, "x-mcp-header in the input schema is invalid, so clients of 2026-07-28 drop the tool: "+
			err.Error(), "see server/tools, x-mcp-header", t.Name)
	}
	for _, a := range toolargs.Arguments(t.InputSchema) {
		if a.Undefined {
			l.add(Warning, "a required argument is not among the properties", "define it, or remove it from required",
				t.Name+" "+a.Name)
		} else if a.Description == "" {
			l.add(Note, "an argument has no description", "describe the meaning, the unit and the format",
				t.Name+" "+a.Name)
		}
	}
}

// lintSchema compiles a schema and reports what is wrong with it. It returns nil if it cannot be compiled.
func lintSchema(l *lints, what, tool string, raw json.RawMessage) *schema.Schema {
	compiled, err := l.schemas.Compile(raw)
	var ref *schema.RefError
	switch {
	case errors.As(err, &ref):
		l.add(Problem, "a reference of the "+what+" has no target",
			`put the schema into "$defs"; clients do not load schemas from the network`, tool+" "+ref.Ref)
	case err != nil:
		l.add(Problem, "the "+what+" is invalid: "+err.Error(), "correct the JSON Schema", tool)
	default:
		for _, u := range compiled.Unchecked() {
			l.add(Note, "a part of the "+what+" is not checked by all validators: "+u.Reason, "", tool+" "+u.Pointer)
		}
	}
	if err != nil {
		return nil
	}
	return compiled
}

// lintPrompt examines the definition of a prompt.
func lintPrompt(l *lints, p *mcp.Prompt) {
	if l.again(p.Name) || p.Name == "" {
		l.add(Problem, "a prompt has no name, or the same name as another", "give each prompt a name of its own",
			p.Name)
	}
	if p.Description == "" {
		l.add(Warning, "a prompt has no description; users choose prompts by it", "describe what the prompt is for",
			p.Name)
	}
	for _, a := range p.Arguments {
		if a.Description == "" {
			l.add(Note, "an argument of a prompt has no description", "describe the meaning and the format",
				p.Name+" "+a.Name)
		}
	}
}

// lintResource examines the definition of a resource.
func lintResource(l *lints, r *mcp.Resource) {
	if u, err := url.Parse(r.URI); err != nil || u.Scheme == "" {
		l.add(Problem, "a URI is invalid or has no scheme", "use absolute URIs, such as notes://list", r.URI)
	}
	if l.again(r.URI) {
		l.add(Problem, "several resources have the same URI", "give each resource a URI of its own", r.URI)
	}
	if r.MimeType == "" {
		l.add(Note, "a resource has no MIME type", "set the MIME type, so that clients can show the resource", r.URI)
	}
}

// lintTemplate examines a resource template.
func lintTemplate(l *lints, t *mcp.ResourceTemplate) {
	if strings.Count(t.URITemplate, "{") != strings.Count(t.URITemplate, "}") || !strings.Contains(t.URITemplate, ":") {
		l.add(Problem, "a URI template is invalid (RFC 6570)", "write variables in braces, and begin with a scheme",
			t.URITemplate)
	}
	if t.Description == "" {
		l.add(Note, "a template has no description", "describe the variables", t.URITemplate)
	}
}
