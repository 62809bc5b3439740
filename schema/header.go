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
	// Path contains the property names that lead from the arguments to the value.
	Path []string
	// Type is "string", "integer" or "boolean".
	Type string
	// WriteOnly and Format are the annotations writeOnly and format, which mark secrets.
	WriteOnly bool
	Format    string
}

// HeaderError reports an x-mcp-header that violates a constraint. A tool whose
// input schema has one is not usable over Streamable HTTP.
type HeaderError struct {
	// Pointer is the JSON Pointer of the annotated subschema, cut at about 1 KiB.
	Pointer string
	// Reason states the constraint.
	Reason string
}

// Error implements the error interface.
func (e *HeaderError) Error() string {
	where := "the root"
	if e.Pointer != "" {
		where = escapePath(e.Pointer)
	}
	return "schema: x-mcp-header at " + where + ": " + e.Reason
}

const headerKeyword = "x-mcp-header"

// Servers accept about 8 KiB of headers.
const (
	maxHeaders    = 100
	maxHeaderPath = 8 << 10
)

// Headers returns the x-mcp-header annotations of the input schema of a tool, in the
// order of the document. The error is a [*HeaderError], or a [*ValidationError] or
// [ErrLimit] if raw is not strict JSON. The result shares no memory with raw.
//
// Headers finds annotations in every subschema and in unknown keywords. The values
// of const, enum, default and examples are data and contain no annotations.
func Headers(raw []byte) ([]HeaderParam, error) {
	h := headers{taken: map[string]bool{}}
	if err := h.scan(raw); err != nil {
		return nil, err
	}
	if err := h.schema(0, true); err != nil {
		return nil, err
	}
	return h.found, nil
}

type headers struct {
	document
	found []HeaderParam
	taken map[string]bool // names in lower case
	path  []step          // from the root to the current value
}

// descend extends the path by one step while it calls walk.
func (h *headers) descend(s step, walk func() error) error {
	h.path = append(h.path, s)
	err := walk()
	h.path = h.path[:len(h.path)-1]
	return err
}

// schema reads a subschema, or an array of subschemas. It is reachable if the path to it
// consists only of "properties".
func (h *headers) schema(at uint32, reachable bool) error {
	t := &h.Tokens[at]
	switch t.Kind {
	case kindArray:
		index := 0
		for i := at + 1; i < t.Next; i = h.Tokens[i].Next {
			if err := h.descend(step{index: index}, func() error { return h.schema(i, false) }); err != nil {
				return err
			}
			index++
		}
	case kindObject:
		for i := at + 1; i < t.Next; i = h.Tokens[i+1].Next {
			if h.named(i, headerKeyword) {
				if err := h.annotation(at, i+1, reachable); err != nil {
					return err
				}
				continue
			}
			if err := h.descend(step{name: i}, func() error {
				return h.keyword(h.Text(i), i+1, reachable)
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// keyword reads the value of a keyword.
func (h *headers) keyword(keyword string, at uint32, reachable bool) error {
	switch keywordNamed(keyword).content {
	case isData:
		return nil
	case schemaMap, schemaOrNamesMap:
		t := &h.Tokens[at]
		if t.Kind != kindObject {
			return nil
		}
		reachable = reachable && keyword == "properties"
		for i := at + 1; i < t.Next; i = h.Tokens[i+1].Next {
			if err := h.descend(step{name: i}, func() error { return h.schema(i+1, reachable) }); err != nil {
				return err
			}
		}
		return nil
	}
	return h.schema(at, false)
}

// annotation reads an x-mcp-header of the subschema at owner.
func (h *headers) annotation(owner, value uint32, reachable bool) error {
	switch {
	case !reachable:
		return h.fail("must be reachable from the root through properties alone")
	case len(h.path) == 0:
		return h.fail("must not be at the root, which is no parameter")
	case h.Tokens[value].Kind != kindString:
		return h.fail("must be a string, not " + h.describe(value))
	}
	name := strings.Clone(h.Text(value))
	switch {
	case name == "":
		return h.fail("must not be empty")
	case !isToken(name):
		return h.fail(quote(name) + " must be a header name: use letters, digits and hyphens")
	case h.taken[strings.ToLower(name)]:
		return h.fail(quote(name) +
			" must be unique; another parameter has this name, and the case of letters does not matter")
	}
	h.taken[strings.ToLower(name)] = true

	typ := ""
	if at, ok := h.member(owner, "type"); ok && h.Tokens[at].Kind == kindString {
		typ = h.Text(at)
	}
	switch typ {
	case "string", "integer", "boolean":
	default:
		return h.fail(`type must be "string", "integer" or "boolean"`)
	}
	var path []string // the other steps are "properties"
	length := 0
	for i := 1; i < len(h.path); i += 2 {
		step := h.Text(h.path[i].name)
		if length += len(step); length > maxHeaderPath {
			return h.fail("too many bytes of property names, the limit is " + strconv.Itoa(maxHeaderPath))
		}
		path = append(path, strings.Clone(step))
	}
	if len(h.found) == maxHeaders {
		return h.fail("too many parameters are mirrored, the limit is " + strconv.Itoa(maxHeaders))
	}
	found := HeaderParam{Name: name, Path: path, Type: strings.Clone(typ)}
	if at, ok := h.member(owner, "writeOnly"); ok {
		found.WriteOnly = h.Tokens[at].Kind == kindBoolean && h.isTrue(at)
	}
	if at, ok := h.member(owner, "format"); ok && h.Tokens[at].Kind == kindString {
		found.Format = strings.Clone(h.Text(at))
	}
	h.found = append(h.found, found)
	return nil
}

func (h *headers) fail(reason string) error {
	return &HeaderError{Pointer: h.pointer(h.path), Reason: reason}
}

// isToken reports whether s is a token (RFC 9110, section 5.6.2).
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
