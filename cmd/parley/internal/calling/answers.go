package calling

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/form"
	"github.com/parley-mcp/parley/cmd/parley/internal/nearest"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/toolargs"
	"github.com/parley-mcp/parley/cmd/parley/internal/yamldoc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

const answerHelp = `In scripts, --answer name=value sets a field of a question, --answers FILE has answers as JSON or
YAML, and --decline declines; see parley help terminal.`

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

// answerSet has answers as words of a command line.
type answerSet struct {
	words []string
	whole bool // for one question; otherwise, each word is for the question that has its field
}

// readFile reads an object, or a list of objects.
func (a *answers) readFile(cmd *cobra.Command, path string) error {
	from := cmd.InOrStdin()
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		from = file
	}
	text, err := io.ReadAll(io.LimitReader(from, maxObject+1))
	switch {
	case err != nil:
		return err
	case len(text) > maxObject:
		return fmt.Errorf("the file must not exceed %d bytes", maxObject)
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
			return fmt.Errorf("%s must have an object, or a list of objects: %w", path, err)
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
		return nil, fmt.Errorf("no field %q in the question %q; %s", a.unused()[0], params.Message,
			usageOf(params.RequestedSchema))
	case !found:
		return nil, fmt.Errorf("the server asks %q; answer with --answer: %s, or decline with --decline",
			params.Message,
			usageOf(params.RequestedSchema))
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
			if nearest.Name(keyOf(word), free) != "" {
				return nil, false, nearest.Unknown("field", keyOf(word), free, "")
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
