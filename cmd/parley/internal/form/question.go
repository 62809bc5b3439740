package form

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"charm.land/huh/v2"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// question is one question of a form and its answer.
type question struct {
	name     string
	schema   mcp.PrimitiveSchema
	required bool
	options  []mcp.EnumOption // the options of a choice; an optional boolean without a default is a choice, too

	// The answer, by kind of question.
	text     string // a string or number
	checked  bool   // a boolean
	selected int    // the index of an option, or none
	multiple []int  // the indexes of options
}

// none is the index for no answer.
const none = -1

// yesNo are the options of an optional boolean.
var yesNo = []mcp.EnumOption{{Const: "true", Title: "Yes"}, {Const: "false", Title: "No"}}

func questionsOf(form *mcp.ElicitSchema) ([]*question, error) {
	var questions []*question
	for _, p := range form.Properties {
		q := &question{name: p.Name, schema: p.Schema, required: slices.Contains(form.Required, p.Name), options: p.Schema.Options(), selected: none}
		if q.schema.Type == mcp.TypeBoolean && !q.required && q.schema.Default == nil {
			q.options = yesNo
		}
		if err := q.preset(); err != nil {
			return nil, fmt.Errorf("property %q: invalid default %.64s: %w", p.Name, p.Schema.Default, err)
		}
		if q.selected == none && q.required {
			q.selected = 0
		}
		questions = append(questions, q)
	}
	return questions, nil
}

// preset sets the answer to the default.
func (q *question) preset() error {
	raw := q.schema.Default
	if raw == nil {
		return nil
	}
	switch {
	case q.schema.Type == mcp.TypeBoolean:
		return schema.Decode(raw, &q.checked)
	case q.schema.Type == mcp.TypeArray:
		var values []string
		if err := schema.Decode(raw, &values); err != nil {
			return err
		}
		for _, value := range values {
			if i := q.option(value); i != none {
				q.multiple = append(q.multiple, i)
			}
		}
	case q.options != nil:
		var value string
		if err := schema.Decode(raw, &value); err != nil {
			return err
		}
		q.selected = q.option(value)
	case q.schema.Type == mcp.TypeString:
		return schema.Decode(raw, &q.text)
	default:
		if c := raw[0]; c != '-' && (c < '0' || c > '9') {
			return errors.New("the default of a number must be a number")
		}
		q.text = string(raw) // keeps all digits
	}
	return nil
}

// option returns the index of the option with a value, or none.
func (q *question) option(value string) int {
	return slices.IndexFunc(q.options, func(o mcp.EnumOption) bool { return o.Const == value })
}

// field returns the form field of the question.
func (q *question) field() huh.Field {
	title, hint := q.title(), q.hint()
	switch {
	case q.schema.Type == mcp.TypeArray:
		return huh.NewMultiSelect[int]().Title(title).Description(hint).Options(q.choices()...).Height(height(len(q.options))).Value(&q.multiple).Validate(q.checkMultiple)
	case q.options != nil:
		choices := q.choices()
		if !q.required && q.schema.Default == nil {
			choices = append([]huh.Option[int]{huh.NewOption("(no answer)", none)}, choices...)
		}
		return huh.NewSelect[int]().Title(title).Description(hint).Options(choices...).Height(height(len(choices))).Value(&q.selected)
	case q.schema.Type == mcp.TypeBoolean:
		return huh.NewConfirm().Title(title).Description(hint).Value(&q.checked)
	}
	return huh.NewInput().Title(title).Description(hint).Value(&q.text).Validate(q.checkText)
}

// isChoice reports whether the answer is one option or a boolean.
func (q *question) isChoice() bool {
	return q.schema.Type == mcp.TypeBoolean || q.options != nil && q.schema.Type != mcp.TypeArray
}

// height returns the number of lines of a choice: title, hint and at most 8 options. The user
// scrolls to further options.
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

// contentOf returns the answers as a JSON object, without the questions that have no answer.
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

// value returns the answer as JSON, or nil if there is none.
func (q *question) value() json.RawMessage {
	switch {
	case q.schema.Type == mcp.TypeArray:
		if len(q.multiple) == 0 && !q.sendsEmpty() {
			return nil
		}
		values := make([]string, 0, len(q.multiple))
		for i, o := range q.options { // in the order of the form
			if slices.Contains(q.multiple, i) {
				values = append(values, o.Const)
			}
		}
		return encode(values)
	case q.options != nil && q.selected == none:
		return nil
	case q.options != nil && q.schema.Type == mcp.TypeBoolean:
		return json.RawMessage(q.options[q.selected].Const)
	case q.options != nil:
		return encode(q.options[q.selected].Const)
	case q.schema.Type == mcp.TypeBoolean:
		return encode(q.checked)
	case q.text == "" && !q.sendsEmpty():
		return nil
	case q.schema.Type == mcp.TypeString:
		return encode(q.text)
	}
	return json.RawMessage(q.text)
}

// sendsEmpty reports whether an empty answer is sent. If an answer is omitted the server
// assumes the default, which the user may have deleted.
func (q *question) sendsEmpty() bool { return q.required || q.schema.Default != nil }

func encode(v any) json.RawMessage {
	raw, _ := json.Marshal(v) // strings and booleans always encode
	return raw
}
