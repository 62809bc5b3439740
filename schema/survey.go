package schema

import (
	"net/url"
	"regexp/syntax"
	"strings"
)

// maxDetours bounds the references to places that are no keyword's subschemas,
// such as "#/components/schemas/Pet", and the identifiers inside of a document:
// the library's time to compile grows with their square.
const maxDetours = 256

// survey is a first look at a schema document, in which every bound is checked
// and every reference located before anything is compiled.
type survey struct {
	*document
	limits  Limits
	dialect dialect

	places  map[uint32]struct{}          // subschemas
	targets map[string]uint32            // where the pointers of references lead
	members map[uint32]map[string]uint32 // of large objects that pointers lead through
	anchors map[string]uint32            // by $anchor; only if each name occurs once
	refs    []reference
	ids     map[string]uint32 // resources by their absolute URI

	count, detours int
	paths          int // total length of the paths to the subschemas
	patterns       patterns
	embedded       bool // an $id below the root
	repeated       bool // an anchor occurs twice
}

// fewMembers is the number of members up to which searching an object costs less
// than building a map.
const fewMembers = 16

// maxURI bounds identifiers and references, in bytes.
const maxURI = 8 << 10

type reference struct {
	text string
	base *url.URL
}

// rootURI is the base of a document without $id. It has a path, so that a
// relative reference resolves to another document and is refused; nothing can be
// fetched from it.
const rootURI = "parley:///schema"

// surveyOf looks through the document from its root.
func surveyOf(d *document, l Limits) (*survey, error) {
	s := &survey{
		document: d, limits: l, dialect: draft2020,
		places:   map[uint32]struct{}{},
		targets:  map[string]uint32{},
		members:  map[uint32]map[string]uint32{},
		anchors:  map[string]uint32{},
		ids:      map[string]uint32{rootURI: 0},
		patterns: patterns{limit: l.MaxRegexp, compiled: map[string]*pattern{}},
	}
	var err error
	if at, ok := d.member(0, "$schema"); ok && d.Tokens[0].Kind == kindObject && d.Tokens[at].Kind == kindString {
		if s.dialect, err = dialectOf(d.text(at)); err != nil {
			return nil, err
		}
	}
	base, err := url.Parse(rootURI)
	if err != nil {
		return nil, err
	}
	if err := s.look(0, 0, 1, base); err != nil {
		return nil, err
	}
	for i := 0; i < len(s.refs); i++ { // locate may find more
		if err := s.locate(s.refs[i]); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// look visits the subschema at a token, to which a path of the given length leads.
func (s *survey) look(at uint32, path, depth int, base *url.URL) error {
	if _, ok := s.places[at]; ok {
		return nil
	}
	s.places[at] = struct{}{}
	s.paths += path
	if s.count++; s.count > s.limits.MaxSubschemas {
		return tooMany("subschemas", s.limits.MaxSubschemas)
	}
	if depth > s.limits.MaxDepth {
		return tooMany("depth of subschemas", s.limits.MaxDepth)
	}
	t := &s.Tokens[at]
	if t.Kind != kindObject {
		return nil
	}
	base, err := s.identify(at, base)
	if err != nil {
		return err
	}
	for i := at + 1; i < t.Next; i = s.Tokens[i+1].Next {
		keyword, value := s.text(i), i+1
		if err := s.keyword(keyword, at, value, base); err != nil {
			return err
		}
		var err error
		s.subschemas(keyword, value, func(sub uint32, length int) {
			if err == nil {
				err = s.look(sub, path+len("/")+len(keyword)+length, depth+1, base)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// identify takes in the identifier of the schema at, if it has one, and returns
// the base URI within it.
func (s *survey) identify(at uint32, base *url.URL) (*url.URL, error) {
	name := "$id"
	if s.dialect == draft4 {
		name = "id"
	}
	value, ok := s.member(at, name)
	if !ok || s.Tokens[value].Kind != kindString {
		return base, nil
	}
	text := s.text(value)
	if len(text) > maxURI {
		return nil, tooMany("bytes of an identifier", maxURI)
	}
	id, err := url.Parse(text)
	if err != nil {
		return nil, &InvalidSchemaError{Reason: "the identifier " + quote(text) + " is not a URI"}
	}
	id.Fragment, id.RawFragment = "", ""
	if id.String() == "" {
		return base, nil
	}
	base = resolve(base, id)
	uri := base.String()
	if len(uri) > maxURI {
		return nil, tooMany("bytes of an identifier", maxURI)
	}
	if at != 0 {
		s.embedded = true
		if s.detours++; s.detours > maxDetours {
			return nil, tooMany("embedded identifiers and detours", maxDetours)
		}
	}
	s.ids[uri] = at
	return base, nil
}

// keyword takes in what a keyword says about references and regular expressions.
func (s *survey) keyword(keyword string, owner, value uint32, base *url.URL) error {
	t := &s.Tokens[value]
	switch keyword {
	case "$ref", "$dynamicRef", "$recursiveRef":
		if t.Kind == kindString {
			if t.End-t.Start > maxURI {
				return tooMany("bytes of a reference", maxURI)
			}
			s.refs = append(s.refs, reference{s.text(value), base})
		}
	case "$anchor":
		if t.Kind == kindString {
			name := s.text(value)
			if _, ok := s.anchors[name]; ok {
				s.repeated = true
			}
			s.anchors[name] = owner
		}
	case "pattern":
		if t.Kind == kindString {
			return s.patterns.check(s.text(value))
		}
	case "patternProperties":
		if t.Kind == kindObject {
			for i := value + 1; i < t.Next; i = s.Tokens[i+1].Next {
				if err := s.patterns.check(s.text(i)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// locate checks that a reference stays inside of the document, or names a meta
// schema, which the library carries. Where it leads to a place that no keyword
// makes a schema, that place is looked at too.
func (s *survey) locate(ref reference) error {
	target, err := url.Parse(ref.text)
	if err != nil {
		return &RefError{Ref: ref.text, Reason: "is not a URI reference"}
	}
	fragment := target.Fragment
	target.Fragment, target.RawFragment = "", ""
	relative := !target.IsAbs() && target.String() != ""
	base := resolve(ref.base, target)
	resource, known := s.ids[base.String()]
	switch {
	case isMetaschema(base.String()):
		return nil
	case !known, relative && ref.base.Opaque != "":
		return &RefError{Ref: ref.text, Reason: "leads outside of the schema document; put its target under $defs"}
	case !strings.HasPrefix(fragment, "/"):
		return nil // the root of a resource, or an anchor
	}
	at, ok := s.follow(resource, fragment)
	if !ok {
		return &RefError{Ref: ref.text, Reason: "leads nowhere"}
	}
	if resource == 0 {
		s.targets[fragment] = at
	}
	if _, ok := s.places[at]; ok {
		return nil
	}
	if s.detours++; s.detours > maxDetours {
		return tooMany("embedded identifiers and detours", maxDetours)
	}
	return s.look(at, len(fragment), 1, base)
}

// follow follows a JSON Pointer from a resource. Many references lead through the
// same few large objects, $defs above all.
func (s *survey) follow(at uint32, pointer string) (uint32, bool) {
	for token := range strings.SplitSeq(pointer[1:], "/") {
		token = unescapePointer(token)
		var ok bool
		if t := &s.Tokens[at]; t.Kind == kindObject && t.Count > fewMembers {
			members := s.members[at]
			if members == nil {
				members = make(map[string]uint32, t.Count)
				for i := at + 1; i < t.Next; i = s.Tokens[i+1].Next {
					members[s.text(i)] = i + 1
				}
				s.members[at] = members
			}
			at, ok = members[token]
		} else {
			at, ok = s.child(at, token)
		}
		if !ok {
			return 0, false
		}
	}
	return at, true
}

// resolve resolves ref against base; unlike net/url alone it leaves an opaque
// base such as a URN standing for references that are fragments only.
func resolve(base, ref *url.URL) *url.URL {
	resolved := base.ResolveReference(ref)
	if !ref.IsAbs() && base.Opaque != "" {
		resolved.Opaque = base.Opaque
	}
	return resolved
}

// isMetaschema reports whether uri names a document that defines a draft.
func isMetaschema(uri string) bool {
	rest, ok := strings.CutPrefix(uri, "http://json-schema.org/")
	if !ok {
		rest, ok = strings.CutPrefix(uri, "https://json-schema.org/")
	}
	switch {
	case !ok:
		return false
	case rest == "schema", rest == "draft-04/schema", rest == "draft-06/schema", rest == "draft-07/schema":
		return true
	case strings.HasPrefix(rest, "draft/2019-09/"):
		rest = strings.TrimPrefix(rest, "draft/2019-09/")
		switch rest {
		case "schema", "meta/core", "meta/applicator", "meta/validation", "meta/meta-data", "meta/format", "meta/content":
			return true
		}
	case strings.HasPrefix(rest, "draft/2020-12/"):
		rest = strings.TrimPrefix(rest, "draft/2020-12/")
		switch rest {
		case "schema", "meta/core", "meta/applicator", "meta/unevaluated", "meta/validation", "meta/meta-data",
			"meta/format-annotation", "meta/format-assertion", "meta/content":
			return true
		}
	}
	return false
}

// instructions estimates the size of a compiled regular expression from above.
// Repetitions are what makes a short one large.
func instructions(re *syntax.Regexp) int {
	n := 1
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		n += len(re.Rune)
	case syntax.OpRepeat:
		n *= max(re.Max, re.Min, 1)
	}
	return n
}
