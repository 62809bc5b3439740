package server

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/parley-mcp/parley/internal/httpurl"
	"github.com/parley-mcp/parley/internal/resourceuri"
)

const (
	maxURI       = 8 << 10 // bytes of the URI of a resource
	maxTemplate  = 2 << 10 // bytes of a URI template
	maxVariables = 32      // in one template
)

// uriTemplate is a URI template (RFC 6570) that extracts values from a URI. An expansion can
// often be read in several ways. These rules decide:
//
//   - Every variable may be absent. A variable without characters is absent, too, unless an
//     operator, separator or name shows that it is present.
//   - A variable takes as many characters as possible, of those that its operator does not
//     encode. A comma separates the elements of lists, and is part of a text only in {+var}
//     and {#var}.
//   - The variables of {?x,y}, {&x,y} and {;x,y} may appear in any order.
//   - A variable occurs once. A prefix such as {var:3} is rejected, because the rest of the
//     value is missing from the URI.
//
// Matching takes time linear in the URI: it is a regular expression without backtracking, and
// its captures are split once. (The matcher of github.com/yosida95/uritemplate takes quadratic
// time for lists, half a second for 8 KiB, and finds variables that are not there; the tests
// compare this one with it.)
type uriTemplate struct {
	text      string
	parts     []templatePart
	variables []templateVariable // in the order of the template

	opaque bool // see opaqueTemplate

	// Set by compile:
	prefix   string // literal text at the beginning of all its URIs
	literals int    // bytes outside of expressions: more bytes are more specific
	reserved bool   // an expression matches slashes
	pattern  *regexp.Regexp
}

// templatePart is a literal or an expression.
type templatePart struct {
	literal string // in the encoding of URIs
	op      *templateOperator
	names   []string
}

type templateVariable struct {
	name     string
	exploded bool
	list     bool // set by compile
}

// templateOperator is a row of the table in RFC 6570, appendix A.
type templateOperator struct {
	sign     string
	first    string
	sep      string
	named    bool
	reserved bool // reserved characters are not encoded
}

var templateOperators = []templateOperator{
	{sign: "+", sep: ",", reserved: true},
	{sign: "#", first: "#", sep: ",", reserved: true},
	{sign: ".", first: ".", sep: "."},
	{sign: "/", first: "/", sep: "/"},
	{sign: ";", first: ";", sep: ";", named: true},
	{sign: "?", first: "?", sep: "&", named: true},
	{sign: "&", first: "&", sep: "&", named: true},
	{sign: "", sep: ","},
}

// parseTemplate parses a template. Call compile before match.
func parseTemplate(text string) (*uriTemplate, error) {
	if text == "" || len(text) > maxTemplate {
		return nil, fmt.Errorf("the URI template must have 1 to %d bytes", maxTemplate)
	}
	t := &uriTemplate{text: text}
	parts, err := resourceuri.SplitTemplate(text)
	if err != nil {
		return nil, err
	}
	for _, part := range parts {
		if part.Literal != "" {
			encoded, err := encodeLiteral(part.Literal)
			if err != nil {
				return nil, err
			}
			t.parts = append(t.parts, templatePart{literal: encoded})
		}
		if part.Expression == "" {
			break
		}
		if err := t.addExpression(part); err != nil {
			return nil, fmt.Errorf("expression %s: %w", part.Expression, err)
		}
	}
	return t, nil
}

// opaqueTemplate returns a template for a text that cannot be parsed. It matches the URIs that begin and end
// as the text does, and sets no variables.
func opaqueTemplate(text string) (*uriTemplate, error) {
	if text == "" || len(text) > maxTemplate {
		return nil, fmt.Errorf("the URI template must have 1 to %d bytes", maxTemplate)
	}
	t := &uriTemplate{text: text, opaque: true, reserved: true}
	begin, rest, found := strings.Cut(text, "{")
	end := strings.LastIndexByte(rest, '}')
	if end < 0 {
		begin, found = text, false
	}
	var b strings.Builder
	b.WriteString(`\A`)
	writeOpaque(&b, begin)
	if found {
		parts, _ := resourceuri.SplitTemplate(text)
		for _, part := range parts {
			for _, v := range part.Variables {
				if t.variable(v.Name) == nil && len(t.variables) < maxVariables {
					t.variables = append(t.variables, templateVariable{name: v.Name})
				}
			}
		}
		b.WriteString(`(?s:.*)`)
		writeOpaque(&b, rest[end+1:])
	}
	b.WriteString(`\z`)
	plain := strings.IndexFunc(begin, func(r rune) bool {
		return !strings.ContainsRune(unreservedCharacters+reservedCharacters, r)
	})
	t.literals, t.prefix = len(begin), begin
	if plain >= 0 {
		t.prefix = begin[:plain] // a URI may have the rest percent-encoded
	}
	var err error
	t.pattern, err = regexp.Compile(b.String())
	return t, err
}

// writeOpaque writes the expression of a literal, each byte of which a URI may have percent-encoded if it must be.
func writeOpaque(b *strings.Builder, literal string) {
	for i := 0; i < len(literal); {
		_, size := utf8.DecodeRuneInString(literal[i:])
		char := literal[i : i+size]
		i += size
		if size == 1 && strings.IndexByte(unreservedCharacters+reservedCharacters, char[0]) >= 0 {
			b.WriteString(regexp.QuoteMeta(char))
			continue
		}
		b.WriteString("(?:" + regexp.QuoteMeta(char) + "|")
		for _, c := range []byte(char) {
			fmt.Fprintf(b, "%%%02X", c)
		}
		b.WriteByte(')')
	}
}

func (t *uriTemplate) addExpression(expression resourceuri.TemplatePart) error {
	part := templatePart{}
	for i := range templateOperators {
		if op := &templateOperators[i]; op.sign == expression.Operator {
			part.op = op
		}
	}
	for _, variable := range expression.Variables {
		v := templateVariable{name: upperTriplets(variable.Name), exploded: variable.Exploded}
		if variable.Prefix != "" {
			return errors.New("prefix modifiers are not supported: remove the :length")
		}
		if !variableName.MatchString(v.name) {
			return fmt.Errorf("invalid variable name %q", v.name)
		}
		if t.variable(v.name) != nil {
			return fmt.Errorf("duplicate variable %s", v.name)
		}
		if len(t.variables) == maxVariables {
			return fmt.Errorf("too many variables: the limit is %d", maxVariables)
		}
		t.variables = append(t.variables, v)
		part.names = append(part.names, v.name)
	}
	t.parts = append(t.parts, part)
	return nil
}

// variableName matches the name of a variable (RFC 6570, section 2.3).
var variableName = regexp.MustCompile(`^(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*$`)

func (t *uriTemplate) variable(name string) *templateVariable {
	for i := range t.variables {
		if t.variables[i].name == name {
			return &t.variables[i]
		}
	}
	return nil
}

// The characters of URIs (RFC 3986, section 2).
const (
	unreservedCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
	reservedCharacters   = ":/?#[]@!$&'()*+,;="
	upperHex             = "0123456789ABCDEF"
)

// encodeLiteral returns the expansion of a literal (RFC 6570, section 3.1).
func encodeLiteral(literal string) (string, error) {
	if !utf8.ValidString(literal) {
		return "", errors.New("the URI template must be UTF-8")
	}
	for _, r := range literal {
		if r >= utf8.RuneSelf && !httpurl.IsInternational(r) {
			return "", fmt.Errorf("%q: the character %U must be percent-encoded", literal, r)
		}
	}
	var b strings.Builder
	for i := 0; i < len(literal); i++ {
		switch c := literal[i]; {
		case c == '%':
			if i+2 >= len(literal) || !isHex(literal[i+1]) || !isHex(literal[i+2]) {
				return "", fmt.Errorf("%q: %% must be followed by two hexadecimal digits", literal)
			}
			b.WriteString(strings.ToUpper(literal[i : i+3]))
			i += 2
		case c >= utf8.RuneSelf:
			b.Write([]byte{'%', upperHex[c>>4], upperHex[c&15]})
		case strings.IndexByte(unreservedCharacters, c) < 0 && strings.IndexByte(reservedCharacters, c) < 0:
			return "", fmt.Errorf("%q: the character %q must be percent-encoded", literal, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), nil
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// compile prepares the template for match. isList reports which variables are lists; the
// others are texts.
func (t *uriTemplate) compile(isList func(name string) bool) error {
	if t.opaque {
		return nil
	}
	var b strings.Builder
	b.WriteString(`\A`)
	for i, part := range t.parts {
		if part.op == nil {
			if i == 0 {
				t.prefix = part.literal
			}
			t.literals += len(part.literal)
			b.WriteString(regexp.QuoteMeta(part.literal))
			continue
		}
		t.reserved = t.reserved || part.op.reserved
		for _, name := range part.names {
			v := t.variable(name)
			if v.list = isList(name); v.exploded && !v.list {
				return fmt.Errorf("{%s*} is a list: make the field %s a slice, or remove the *", name, name)
			}
		}
		if part.op.named {
			t.writeNamed(&b, part)
		} else {
			t.writePlain(&b, part)
		}
	}
	b.WriteString(`\z`)
	var err error
	t.pattern, err = regexp.Compile(b.String())
	return err
}

// writePlain writes the expression of values without names, with a capturing group for each
// variable.
func (t *uriTemplate) writePlain(b *strings.Builder, part templatePart) {
	op := part.op
	b.WriteString("(?:" + regexp.QuoteMeta(op.first))
	for i, name := range part.names {
		if i > 0 {
			b.WriteString("(?:" + regexp.QuoteMeta(op.sep))
		}
		v := t.variable(name)
		without := ""
		if len(part.names) > 1 || v.exploded {
			without = op.sep
		}
		b.WriteByte('(')
		if v.list {
			element := characters(op.reserved, without+v.separator(op))
			b.WriteString(element + "(?:" + regexp.QuoteMeta(v.separator(op)) + element + ")*")
		} else {
			b.WriteString(characters(op.reserved, without))
		}
		b.WriteByte(')')
	}
	b.WriteString(strings.Repeat(")?", len(part.names)))
}

// separator returns the separator between the elements of a list.
func (v *templateVariable) separator(op *templateOperator) string {
	if v.exploded {
		return op.sep
	}
	return ","
}

// writeNamed writes the expression of values with names, with one group that captures all.
func (t *uriTemplate) writeNamed(b *strings.Builder, part templatePart) {
	op := part.op
	var pairs []string
	for _, name := range part.names {
		v := t.variable(name)
		value := characters(false, "")
		if v.list && !v.exploded {
			value += "(?:," + value + ")*"
		}
		pairs = append(pairs, regexp.QuoteMeta(name)+"(?:="+value+")?")
	}
	pair := "(?:" + strings.Join(pairs, "|") + ")"
	b.WriteString("(?:" + regexp.QuoteMeta(op.first) + "(" + pair + "(?:" + op.sep + pair + ")*))?")
}

// characters returns the expression for any number of characters of a value.
func characters(reserved bool, without string) string {
	all := unreservedCharacters
	if reserved {
		all += reservedCharacters
	}
	var b strings.Builder
	b.WriteString("(?:[")
	for _, c := range []byte(all) {
		if strings.IndexByte(without, c) < 0 {
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	b.WriteString("]|%[0-9A-F]{2})*")
	return b.String()
}

// match returns the values of the variables in a URI, each a list of one element unless the
// variable is a list. It returns false if the URI does not match. Values are decoded; a value
// with NUL or invalid UTF-8 does not match.
func (t *uriTemplate) match(uri string) (map[string][]string, bool) {
	if len(uri) > maxURI {
		return nil, false
	}
	uri = upperTriplets(uri)
	if !strings.HasPrefix(uri, t.prefix) {
		return nil, false
	}
	at := t.pattern.FindStringSubmatchIndex(uri)
	if at == nil {
		return nil, false
	}
	m := &templateMatch{values: make(map[string][]string, len(t.variables)), ok: true}
	at = at[2:]
	for _, part := range t.parts {
		switch {
		case part.op == nil:
		case part.op.named:
			if at[0] >= 0 {
				m.readNamed(t, part.op, uri[at[0]:at[1]])
			}
			at = at[2:]
		default:
			for _, name := range part.names {
				if at[0] >= 0 && (at[1] > at[0] || part.op.first != "") {
					m.read(t.variable(name), part.op, uri[at[0]:at[1]])
				}
				at = at[2:]
			}
		}
	}
	return m.values, m.ok
}

type templateMatch struct {
	values map[string][]string
	ok     bool
}

func (m *templateMatch) readNamed(t *uriTemplate, op *templateOperator, pairs string) {
	for pair := range strings.SplitSeq(pairs, op.sep) {
		name, value, _ := strings.Cut(pair, "=")
		v := t.variable(name)
		if _, again := m.values[name]; again && !v.exploded {
			m.ok = false
			return
		}
		if v.exploded {
			m.add(name, value)
		} else {
			m.read(v, op, value)
		}
	}
}

func (m *templateMatch) read(v *templateVariable, op *templateOperator, raw string) {
	if !v.list {
		m.add(v.name, raw)
		return
	}
	for element := range strings.SplitSeq(raw, v.separator(op)) {
		m.add(v.name, element)
	}
}

func (m *templateMatch) add(name, raw string) {
	value, err := url.PathUnescape(raw)
	if err != nil || !utf8.ValidString(value) || strings.IndexByte(value, 0) >= 0 {
		m.ok = false
		return
	}
	m.values[name] = append(m.values[name], value)
}

// upperTriplets writes percent-encoded bytes in upper case (RFC 3986, section 6.2.2.1).
func upperTriplets(uri string) string {
	var b []byte
	for i := 0; i+2 < len(uri); i++ {
		if uri[i] != '%' || !isHex(uri[i+1]) || !isHex(uri[i+2]) {
			continue
		}
		if upper := strings.ToUpper(uri[i+1 : i+3]); upper != uri[i+1:i+3] {
			if b == nil {
				b = []byte(uri)
			}
			copy(b[i+1:], upper)
		}
		i += 2
	}
	if b == nil {
		return uri
	}
	return string(b)
}
