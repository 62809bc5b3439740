package use

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/check/yamldoc"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/form"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/output"
	"github.com/parley-mcp/parley/cmd/parley/internal/use/toolargs"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// contentWriter collects the contents of a result as text for people. Text for a terminal is sanitised.
type contentWriter struct {
	b        strings.Builder
	terminal bool
	saved    savedFiles
}

func newContentWriter(w io.Writer, saved savedFiles) *contentWriter {
	return &contentWriter{terminal: terminal.Is(w), saved: saved}
}

// line writes text, and a newline if the last line has none.
func (c *contentWriter) line(text string) {
	if c.terminal {
		text = terminal.Block(text)
	}
	c.b.WriteString(text)
	if !strings.HasSuffix(text, "\n") {
		c.b.WriteByte('\n')
	}
}

// block writes a text, or a description of other content in brackets.
func (c *contentWriter) block(block mcp.Content) {
	switch b := block.(type) {
	case *mcp.TextContent:
		c.line(b.Text)
	case *mcp.ImageContent:
		c.binary(b, "image, "+b.MimeType, b.Data)
	case *mcp.AudioContent:
		c.binary(b, "audio, "+b.MimeType, b.Data)
	case *mcp.ResourceLink:
		c.line(fmt.Sprintf("[resource %s: %s]", terminal.Line(b.Name), terminal.Line(b.URI)))
	case *mcp.EmbeddedResource:
		c.resource(&b.Resource)
	case *mcp.UnknownContent:
		c.line(fmt.Sprintf("[content of the unknown type %s; use --output json]", terminal.Line(b.Type)))
	default:
		c.line(fmt.Sprintf("[%T]", block))
	}
}

// resource writes a description of a resource, and its text.
func (c *contentWriter) resource(r *mcp.ResourceContents) {
	head := "resource " + r.URI
	if r.MimeType != "" {
		head += ", " + r.MimeType
	}
	if r.Blob != nil {
		c.binary(r, head, r.Blob)
		return
	}
	c.line("[" + terminal.Line(head) + "]")
	if r.Text != "" {
		c.line(r.Text)
	}
}

// binary writes a description of data. of is its key in saved.
func (c *contentWriter) binary(of any, head string, data []byte) {
	advice := "save it with --save DIR"
	if path := c.saved[of]; path != "" {
		advice = "saved as " + path
	}
	c.line(fmt.Sprintf("[%s, %s; %s]", terminal.Line(head), size(len(data)), advice))
}

// size returns a number of bytes in a suitable unit.
func size(n int) string {
	switch {
	case n < 1<<10:
		return terminal.Count(n, "byte")
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// savedFiles are the paths of saved contents. A key is a *mcp.ImageContent, *mcp.AudioContent or *mcp.ResourceContents.
type savedFiles map[any]string

// save saves the binary contents among blocks to the directory of --save, if there is one. Files of contents without a
// URI are called name.
func (s *session) save(cmd *cobra.Command, name string, blocks ...mcp.Content) (savedFiles, error) {
	if s.saveDir == "" {
		return nil, nil
	}
	dir, err := openSaveDir(s.saveDir)
	if err != nil {
		return nil, fmt.Errorf("--save: %w", err)
	}
	defer dir.root.Close()
	saved := make(savedFiles)
	for _, block := range blocks {
		var of any = block
		var data []byte
		name, mimeType := name, ""
		switch b := block.(type) {
		case *mcp.ImageContent:
			data, mimeType = b.Data, b.MimeType
		case *mcp.AudioContent:
			data, mimeType = b.Data, b.MimeType
		case *mcp.EmbeddedResource:
			of, data, mimeType, name = &b.Resource, b.Resource.Blob, b.Resource.MimeType, b.Resource.URI
		}
		if data == nil {
			continue
		}
		if saved[of], err = dir.save(name, mimeType, data); err != nil {
			return nil, fmt.Errorf("--save: %w", err)
		}
		if output.Of(cmd) != output.Table { // otherwise the description of the content has the path
			cmd.PrintErrln("parley: saved " + terminal.Line(saved[of]))
		}
	}
	return saved, nil
}

// saveContents is like save for the contents of a resource.
func (s *session) saveContents(cmd *cobra.Command, contents []mcp.ResourceContents) (savedFiles, error) {
	var blocks []mcp.Content
	for i := range contents {
		blocks = append(blocks, &mcp.EmbeddedResource{Resource: contents[i]})
	}
	saved, err := s.save(cmd, "", blocks...)
	for i, block := range blocks {
		if path := saved[&block.(*mcp.EmbeddedResource).Resource]; path != "" {
			saved[&contents[i]] = path
		}
	}
	return saved, err
}

// printResult prints the result of a tool. The last line ends with a newline. The text of a tool error is printed to
// stderr.
func printResult(cmd *cobra.Command, result *mcp.CallToolResult, saved savedFiles) error {
	return output.Show(cmd, result, func(w io.Writer) error {
		if result.IsError {
			w = cmd.ErrOrStderr()
		}
		c := newContentWriter(w, saved)
		c.result(result)
		if result.IsError && c.b.Len() == 0 {
			c.line("the tool returned an error without a message")
		}
		_, err := io.WriteString(w, c.b.String())
		return err
	})
}

// result writes a result. Texts are unchanged, other content is described. Structured content is written only if there
// is no other content, because servers repeat it as text.
func (c *contentWriter) result(result *mcp.CallToolResult) {
	for _, block := range result.Content {
		c.block(block)
	}
	if len(result.Content) == 0 && result.StructuredContent != nil {
		var indented bytes.Buffer
		if json.Indent(&indented, result.StructuredContent, "", "  ") == nil {
			c.line(indented.String())
		}
	}
}

const answerHelp = `In a script, answer with --answer name=value, once for each field of the form, or with a file of
JSON or YAML (--answers); --decline declines. parley help terminal says more.`

// answerFlags are the flags with the answers to the questions of a server, for scripts.
type answerFlags struct {
	words   []string
	file    string
	decline bool
}

func (f *answerFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Var((*program.Repeated)(&f.words), "answer", "field of a question, as `name=value` (repeatable)")
	flags.StringVar(&f.file, "answers", "", "`file` with answers as JSON or YAML, or - for stdin")
	flags.BoolVar(&f.decline, "decline", false, "decline the questions that have no answer")
	_ = cmd.MarkFlagFilename("answers", "json", "yaml", "yml") // the flag exists
}

// read returns the answers, or nil if no flag is set.
func (f *answerFlags) read(cmd *cobra.Command) (*answers, error) {
	if len(f.words) == 0 && f.file == "" && !f.decline {
		return nil, nil
	}
	a := &answers{decline: f.decline}
	for _, word := range f.words {
		if _, err := toolargs.Key(word); err != nil {
			return nil, fmt.Errorf("--answer: %w", err)
		}
	}
	switch {
	case len(f.words) > 0 && f.file != "":
		return nil, errors.New("cannot combine --answer and --answers; use one of them")
	case len(f.words) > 0:
		a.sets = []*answerSet{{words: f.words}}
	case f.file != "":
		if err := a.readFile(cmd, f.file); err != nil {
			return nil, fmt.Errorf("--answers: %w", err)
		}
	}
	return a, nil
}

// answers are the answers of a script. They are safe for concurrent use.
type answers struct {
	mu      sync.Mutex
	sets    []*answerSet // that are not used
	decline bool
}

// answerSet contains answers as words of a command line.
type answerSet struct {
	words []string
	whole bool // for one question; otherwise, each word is for the question that has its field
}

// readFile reads an object, or a list of objects.
func (a *answers) readFile(cmd *cobra.Command, path string) error {
	text, err := readInput(cmd, path)
	if err != nil {
		return err
	}
	document, err := yamldoc.Parse(path, text)
	if err != nil {
		return err
	}
	objects := []json.RawMessage{document.JSON}
	list := document.JSON[0] == '['
	if list {
		if err := schema.Decode(document.JSON, &objects); err != nil {
			return err
		}
	}
	for _, object := range objects {
		words, err := toolargs.Words(object)
		if err != nil {
			return fmt.Errorf("%s must contain an object or a list of objects: %w", path, err)
		}
		a.sets = append(a.sets, &answerSet{words, list})
	}
	return nil
}

// elicit answers a question.
func (a *answers) elicit(params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	if params.Mode == mcp.ElicitModeURL {
		if a.decline {
			return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
		}
		return nil,
			fmt.Errorf("the server asks you to open %s (%s); run the command at a terminal without answers, or "+
				"decline with --decline", params.URL, params.Message)
	}
	fields, err := mcp.ParseElicitSchema(params.RequestedSchema)
	if err != nil {
		return nil, err
	}
	words, found, err := a.take(fields)
	switch {
	case err != nil:
		return nil, err
	case !found && a.decline:
		return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
	case !found && len(a.unused()) > 0:
		return nil, fmt.Errorf("the form %q has no field %q; %s", params.Message, a.unused()[0],
			usageOf(params.RequestedSchema))
	case !found:
		return nil, fmt.Errorf("the server asks %q; answer with --answer: %s, or decline with --decline",
			params.Message, usageOf(params.RequestedSchema))
	}
	content, err := toolargs.ParseFields(params.RequestedSchema, withDefaults(fields, words))
	if err == nil {
		err = checkAnswer(params.RequestedSchema, fields, content)
	}
	if err != nil {
		return nil, fmt.Errorf("the answer does not match the form: %w", err)
	}
	return mcp.AcceptElicit(content)
}

// take removes and returns the answers for a form.
func (a *answers) take(form *mcp.ElicitSchema) (words []string, found bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var fields []string
	for _, p := range form.Properties {
		fields = append(fields, p.Name)
	}
	for i, set := range a.sets {
		var own, others, free []string
		for _, word := range set.words {
			if slices.Contains(fields, keyOf(word)) {
				own = append(own, word)
			} else {
				others = append(others, word)
			}
		}
		for _, field := range fields {
			if !slices.ContainsFunc(own, func(word string) bool { return keyOf(word) == field }) {
				free = append(free, field)
			}
		}
		for _, word := range others {
			if terminal.Nearest(keyOf(word), free) != "" {
				return nil, false, terminal.Unknown("field", keyOf(word), free, "")
			}
		}
		if set.whole && len(others) > 0 || len(own) == 0 && len(others) > 0 {
			continue
		}
		if set.words = others; len(others) == 0 {
			a.sets = slices.Delete(a.sets, i, i+1)
		}
		return own, true, nil
	}
	return nil, false, nil
}

// unused returns the names of the answers for which the server has not asked.
func (a *answers) unused() (names []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, set := range a.sets {
		for _, word := range set.words {
			names = append(names, keyOf(word))
		}
	}
	return names
}

// keyOf returns the key of a word that read has checked.
func keyOf(word string) string {
	key, _ := toolargs.Key(word)
	return key
}

// withDefaults returns words with those of the defaults of a form for the other fields.
func withDefaults(form *mcp.ElicitSchema, words []string) []string {
	all := slices.Clone(words)
	for _, p := range form.Properties {
		given := slices.ContainsFunc(words, func(word string) bool { return keyOf(word) == p.Name })
		if p.Schema.Default != nil && !given && !strings.Contains(p.Name, "=") {
			all = append(all, p.Name+":="+string(p.Schema.Default))
		}
	}
	return all
}

// checkAnswer returns an error unless content has valid values for the fields of a form.
func checkAnswer(raw json.RawMessage, fields *mcp.ElicitSchema, content json.RawMessage) error {
	compiled, err := schema.Compile(raw)
	if err == nil {
		err = compiled.Validate(content)
	}
	if invalid := new(schema.ValidationError); errors.As(err, &invalid) && len(invalid.Issues) > 0 {
		issue := invalid.Issues[0]
		return fmt.Errorf("field %q: expected %s, got %s", strings.TrimPrefix(issue.Path, "/"), issue.Expected,
			issue.Got)
	}
	if err != nil {
		return err
	}
	for _, p := range fields.Properties {
		var text string
		if value, given := jsonrpc.Get(content, p.Name); given && p.Schema.Type == mcp.TypeString &&
			schema.Decode(value, &text) == nil {
			if err := form.CheckFormat(p.Schema.Format, text); err != nil {
				return fmt.Errorf("field %q: %q %w", p.Name, text, err)
			}
		}
	}
	return nil
}

// usageOf returns the fields of a form as a part of an error message.
func usageOf(form json.RawMessage) string {
	if text := toolargs.Summary(form); text != "" {
		return "the fields are " + text
	}
	return "it has no fields, so the answer is an empty object of --answers"
}
