package schema

import (
	"strconv"
	"strings"
)

// HeaderParam is a parameter of a tool that is mirrored into an HTTP header
// (2026-07-28, transports/streamable-http, Custom Headers from Tool Parameters).
type HeaderParam struct {
	// Name is the value of x-mcp-header; the header is called "Mcp-Param-" + Name.
	Name string
	// Path holds the member names that lead from the arguments to the value.
	Path []string
	// Type is "string", "integer" or "boolean".
	Type string
}

// HeaderError reports an x-mcp-header that violates a constraint. A tool whose
// input schema has one is not usable over Streamable HTTP.
type HeaderError struct {
	// Pointer is the JSON Pointer of the annotated subschema.
	Pointer string
	// Reason says which constraint is violated.
	Reason string
}

func (e *HeaderError) Error() string {
	where := "the root"
	if e.Pointer != "" {
		where = escapePath(e.Pointer)
	}
	return "schema: x-mcp-header at " + where + ": " + e.Reason
}

const headerKeyword = "x-mcp-header"

// Headers reads the x-mcp-header annotations out of the input schema of a tool,
// in document order. The error is a [*HeaderError], or a [*ValidationError] or
// [*LimitError] if raw is not strict JSON. The result shares nothing with raw.
//
// An annotation counts as such wherever a schema may stand and in unknown
// keywords; what const, enum, default and examples hold is data.
func Headers(raw []byte) ([]HeaderParam, error) {
	h := headers{taken: map[string]bool{}}
	if err := h.scan(raw); err != nil {
		return nil, err
	}
	if err := h.schema(0, "", nil, true); err != nil {
		return nil, err
	}
	return h.found, nil
}

type headers struct {
	document
	found []HeaderParam
	taken map[string]bool // in lower case
}

// schema looks at a subschema. It is reachable if nothing but "properties" leads
// to it; path then holds the names.
func (h *headers) schema(at uint32, pointer string, path []string, reachable bool) error {
	t := &h.tokens[at]
	if t.kind == kindArray {
		index := 0
		for i := at + 1; i < t.next; i = h.tokens[i].next {
			if err := h.schema(i, pointer+"/"+strconv.Itoa(index), nil, false); err != nil {
				return err
			}
			index++
		}
	}
	if t.kind != kindObject {
		return nil
	}
	for i := at + 1; i < t.next; i = h.tokens[i+1].next {
		keyword, value := h.text(i), i+1
		below := pointer + string(appendPointer(nil, keyword))
		var err error
		switch {
		case keyword == headerKeyword:
			err = h.annotation(at, value, pointer, path, reachable)
		case keywordHolds(keyword) == holdsData:
		case keywordHolds(keyword) == holdsMap || keywordHolds(keyword) == holdsMapAlias:
			err = h.named(value, below, path, reachable && keyword == "properties")
		default:
			err = h.schema(value, below, nil, false)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// named looks at the subschemas that an object holds by name.
func (h *headers) named(at uint32, pointer string, path []string, reachable bool) error {
	t := &h.tokens[at]
	if t.kind != kindObject {
		return nil
	}
	for i := at + 1; i < t.next; i = h.tokens[i+1].next {
		name := strings.Clone(h.text(i))
		var below []string
		if reachable {
			below = append(path[:len(path):len(path)], name)
		}
		if err := h.schema(i+1, pointer+string(appendPointer(nil, name)), below, reachable); err != nil {
			return err
		}
	}
	return nil
}

// annotation takes in an x-mcp-header of the subschema at owner.
func (h *headers) annotation(owner, value uint32, pointer string, path []string, reachable bool) error {
	fail := func(reason string) error { return &HeaderError{Pointer: pointer, Reason: reason} }
	switch {
	case !reachable:
		return fail("not reachable from the root through properties alone")
	case len(path) == 0:
		return fail("the root is no parameter")
	case h.tokens[value].kind != kindString:
		return fail("must be a string, not " + h.describe(value))
	}
	name := strings.Clone(h.text(value))
	switch {
	case name == "":
		return fail("must not be empty")
	case !isToken(name):
		return fail(quote(name) + " is not a header name: use letters, digits and hyphens")
	case h.taken[strings.ToLower(name)]:
		return fail(quote(name) + " is taken by another parameter; the case of letters makes no difference")
	}
	h.taken[strings.ToLower(name)] = true

	typ := ""
	if at, ok := h.member(owner, "type"); ok && h.tokens[at].kind == kindString {
		typ = h.text(at)
	}
	switch typ {
	case "string", "integer", "boolean":
	default:
		return fail(`the type must be "string", "integer" or "boolean"`)
	}
	h.found = append(h.found, HeaderParam{Name: name, Path: path, Type: strings.Clone(typ)})
	return nil
}

// isToken reports whether s is a token as RFC 9110, section 5.6.2, has it.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}
