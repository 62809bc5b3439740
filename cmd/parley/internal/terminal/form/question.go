package form

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

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
		q := &question{name: p.Name, schema: p.Schema, required: slices.Contains(form.Required, p.Name),
			options: p.Schema.Options(), selected: none}
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
		return huh.NewMultiSelect[int]().Title(title).Description(hint).Options(q.choices()...).
			Height(height(len(q.options))).Value(&q.multiple).Validate(q.checkMultiple)
	case q.options != nil:
		choices := q.choices()
		if !q.required && q.schema.Default == nil {
			choices = append([]huh.Option[int]{huh.NewOption("(no answer)", none)}, choices...)
		}
		return huh.NewSelect[int]().Title(title).Description(hint).Options(choices...).
			Height(height(len(choices))).Value(&q.selected)
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
	title := cmp.Or(q.schema.Title, q.name)
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

// checkText returns nil if text is a valid answer to a question for a string or number.
func (q *question) checkText(text string) error {
	switch {
	case text == "" && q.required:
		return errors.New("an answer is required")
	case text == "" && !q.sendsEmpty():
		return nil
	case q.schema.Type == mcp.TypeString:
		return q.checkString(text)
	}
	return q.checkNumber(text)
}

func (q *question) checkString(text string) error {
	n := int64(utf8.RuneCountInString(text))
	switch least, most := q.schema.MinLength, q.schema.MaxLength; {
	case least != nil && n < *least, most != nil && n > *most:
		return fmt.Errorf("the answer has %d characters; enter %s", n, between(least, most))
	}
	return CheckFormat(q.schema.Format, text)
}

// CheckFormat returns nil if text has the format. The server checks unknown formats.
func CheckFormat(format mcp.StringFormat, text string) error {
	switch format {
	case mcp.FormatEmail:
		if a, err := mail.ParseAddress(text); err != nil || a.Address != text {
			return errors.New("must be an e-mail address, such as ada@example.com")
		}
	case mcp.FormatURI:
		if u, err := url.Parse(text); err != nil || u.Scheme == "" || strings.ContainsRune(text, ' ') {
			return errors.New("must be a URI, such as https://example.com/")
		}
	case mcp.FormatDate:
		if _, err := time.Parse(time.DateOnly, text); err != nil {
			return errors.New("must be a date, such as 2026-07-28")
		}
	case mcp.FormatDateTime:
		if _, err := time.Parse(time.RFC3339, text); err != nil {
			return errors.New("must be a date and time, such as 2026-07-28T19:30:00Z")
		}
	}
	return nil
}

func (q *question) checkNumber(text string) error {
	if !json.Valid([]byte(text)) || strings.TrimSpace(text) != text || strings.IndexByte("-0123456789", text[0]) < 0 {
		return errors.New("must be a number")
	}
	if q.schema.Type == mcp.TypeInteger && strings.ContainsAny(text, ".eE") {
		return errors.New("must be a whole number")
	}
	number, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return errors.New("the number is too large")
	}
	switch least, most := q.schema.Minimum, q.schema.Maximum; {
	case least != nil && number < *least, most != nil && number > *most:
		return fmt.Errorf("enter %s", between(least, most))
	}
	return nil
}

func (q *question) checkMultiple(chosen []int) error {
	n := int64(len(chosen))
	switch least, most := q.schema.MinItems, q.schema.MaxItems; {
	case n == 0 && !q.sendsEmpty():
		return nil
	case least != nil && n < *least, most != nil && n > *most:
		return fmt.Errorf("choose %s", between(least, most))
	}
	return nil
}

// between describes bounds. It returns an empty string if there are none.
func between[N int64 | float64](least, most *N) string {
	switch {
	case least != nil && most != nil && *least == *most:
		return fmt.Sprintf("exactly %v", *least)
	case least != nil && most != nil:
		return fmt.Sprintf("%v to %v", *least, *most)
	case least != nil:
		return fmt.Sprintf("%v or more", *least)
	case most != nil:
		return fmt.Sprintf("at most %v", *most)
	}
	return ""
}

// hint describes the valid answers.
func (q *question) hint() string {
	s := &q.schema
	var kind, bounds string
	switch {
	case s.Type == mcp.TypeArray:
		kind = "select with space or x"
		if bounds = between(s.MinItems, s.MaxItems); bounds != "" {
			bounds = "choose " + bounds
		}
	case q.options != nil, s.Type == mcp.TypeBoolean:
	case s.Type == mcp.TypeInteger:
		kind, bounds = "a whole number", between(s.Minimum, s.Maximum)
	case s.Type == mcp.TypeNumber:
		kind, bounds = "a number", between(s.Minimum, s.Maximum)
	default:
		kind = map[mcp.StringFormat]string{
			mcp.FormatEmail:    "an e-mail address",
			mcp.FormatURI:      "a URI",
			mcp.FormatDate:     "a date, such as 2026-07-28",
			mcp.FormatDateTime: "a date and time, such as 2026-07-28T19:30:00Z",
		}[s.Format]
		if bounds = between(s.MinLength, s.MaxLength); bounds != "" {
			bounds += " characters"
		}
	}
	var parts []string
	for _, part := range []string{terminal.Line(s.Description), kind, bounds} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, " · ")
}
