package schema

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// object writes the members of a JSON object after its opening brace.
type object struct{ b []byte }

func (o *object) key(name string) {
	if o.b[len(o.b)-1] != '{' {
		o.b = append(o.b, ',')
	}
	o.b = append(appendQuoted(o.b, name), ':')
}

// text writes a string member unless it is empty.
func (o *object) text(name, value string) {
	if value != "" {
		o.key(name)
		o.b = appendQuoted(o.b, value)
	}
}

// raw writes a member whose value is JSON, unless it is empty.
func (o *object) raw(name, value string) {
	if value != "" {
		o.key(name)
		o.b = append(o.b, value...)
	}
}

func (o *object) end() []byte { return append(o.b, '}') }

// appendQuoted appends s as a JSON string. Invalid UTF-8 becomes U+FFFD.
func appendQuoted(b []byte, s string) []byte {
	b, err := jsontext.AppendQuote(b, s)
	if err != nil {
		b, _ = jsontext.AppendQuote(b, strings.ToValidUTF8(s, "\uFFFD"))
	}
	return b
}
