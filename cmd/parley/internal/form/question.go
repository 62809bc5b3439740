package form

import (
	"encoding/json"
	"fmt"
	"slices"

	"charm.land/huh/v2"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/mcp"
)

// question is one question of a form, and what has been answered.
type question struct {
	name     string
	schema   mcp.PrimitiveSchema
	required bool
	options  []mcp.EnumOption // of choices; a yes or no that may be left open is one, too

	text    string // of texts and numbers
	yes     bool
	one     int // the option chosen, or none
	several []int
}

// none is the option of no answer.
const none = -1

// The options of a yes or no, in this order.
var yesNo = []mcp.EnumOption{{Const: "true", Title: "Yes"}, {Const: "false", Title: "No"}}

func questionsOf(form *mcp.ElicitSchema) ([]*question, error) {
	var questions []*question
	for _, p := range form.Properties {
		q := &question{name: p.Name, schema: p.Schema, required: slices.Contains(form.Required, p.Name), options: p.Schema.Options(), one: none}
		if q.schema.Type == mcp.TypeBoolean && !q.required && q.schema.Default == nil {
			q.options = yesNo
		}
		if err := q.preset(); err != nil {
			return nil, fmt.Errorf("property %q: its default %.64s does not fit: %w", p.Name, p.Schema.Default, err)
		}
		if q.one == none && q.required {
			q.one = 0
		}
		questions = append(questions, q)
	}
	return questions, nil
}

// preset makes the default the answer.
func (q *question) preset() error {
	raw := q.schema.Default
	if raw == nil {
		return nil
	}
	switch {
	case q.schema.Type == mcp.TypeBoolean:
		return json.Unmarshal(raw, &q.yes)
	case q.schema.Type == mcp.TypeArray:
		var values []string
		if err := json.Unmarshal(raw, &values); err != nil {
			return err
		}
		for _, value := range values {
			if i := q.option(value); i != none {
				q.several = append(q.several, i)
			}
		}
	case q.options != nil:
		var value string
		if err := json.Unmarshal(raw, &value); err != nil {
			return err
		}
		q.one = q.option(value)
	case q.schema.Type == mcp.TypeString:
		return json.Unmarshal(raw, &q.text)
	default:
		var number json.Number
		if err := json.Unmarshal(raw, &number); err != nil {
			return err
		}
		q.text = number.String() // exactly as it was written
	}
	return nil
}

// option returns which option has a value.
func (q *question) option(value string) int {
	return slices.IndexFunc(q.options, func(o mcp.EnumOption) bool { return o.Const == value })
}

// field returns what to show for a question.
func (q *question) field() huh.Field {
	title, hint := q.title(), q.hint()
	switch {
	case q.schema.Type == mcp.TypeArray:
		return huh.NewMultiSelect[int]().Title(title).Description(hint).Options(q.choices()...).Height(height(len(q.options))).Value(&q.several).Validate(q.checkSeveral)
	case q.options != nil:
		choices := q.choices()
		if !q.required && q.schema.Default == nil {
			choices = append([]huh.Option[int]{huh.NewOption("(no answer)", none)}, choices...)
		}
		return huh.NewSelect[int]().Title(title).Description(hint).Options(choices...).Height(height(len(choices))).Value(&q.one)
	case q.schema.Type == mcp.TypeBoolean:
		return huh.NewConfirm().Title(title).Description(hint).Value(&q.yes)
	}
	return huh.NewInput().Title(title).Description(hint).Value(&q.text).Validate(q.checkText)
}

// height is how many lines a choice takes: its title, its hint and what fits of the
// options; the others are scrolled to.
func height(options int) int { return 2 + min(options, 8) }

func (q *question) choices() []huh.Option[int] {
	var choices []huh.Option[int]
	for i, o := range q.options {
		choices = append(choices, huh.NewOption(terminal.Line(o.Title), i))
	}
	return choices
}

func (q *question) title() string {
	title := q.schema.Title
	if title == "" {
		title = q.name
	}
	if !q.required {
		title += " (optional)"
	}
	return terminal.Line(title)
}

// contentOf returns the answers as a JSON object. What was left open is left out.
func contentOf(questions []*question) json.RawMessage {
	object := []byte{'{'}
	for _, q := range questions {
		value := q.value()
		if value == nil {
			continue
		}
		if len(object) > 1 {
			object = append(object, ',')
		}
		object = append(append(append(object, encode(q.name)...), ':'), value...)
	}
	return append(object, '}')
}

// value returns an answer as JSON, or nil if there is none.
func (q *question) value() json.RawMessage {
	switch {
	case q.schema.Type == mcp.TypeArray:
		if len(q.several) == 0 && !q.answered() {
			return nil
		}
		values := make([]string, 0, len(q.several))
		for i, o := range q.options { // in the form's order, not that of choosing
			if slices.Contains(q.several, i) {
				values = append(values, o.Const)
			}
		}
		return encode(values)
	case q.options != nil && q.one == none:
		return nil
	case q.options != nil && q.schema.Type == mcp.TypeBoolean:
		return json.RawMessage(q.options[q.one].Const)
	case q.options != nil:
		return encode(q.options[q.one].Const)
	case q.schema.Type == mcp.TypeBoolean:
		return encode(q.yes)
	case q.text == "" && !q.answered():
		return nil
	case q.schema.Type == mcp.TypeString:
		return encode(q.text)
	}
	return json.RawMessage(q.text)
}

// answered reports whether nothing is an answer, too: to leave it out would stand for
// the default, which the user has taken away.
func (q *question) answered() bool { return q.required || q.schema.Default != nil }

func encode(v any) json.RawMessage {
	raw, _ := json.Marshal(v) // strings and booleans always encode
	return raw
}
