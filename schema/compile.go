package schema

import (
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// compiler turns an indexed document into a program. It rejects what the
// meta-schema of the draft rejects.
type compiler struct {
	*index
	unchecked []Unchecked
	refs      []*extra // subschemas with dynamic references
}

// compile returns the root of the program.
func (c *compiler) compile() (*node, error) {
	root, err := c.node(0)
	if err != nil || !c.dynamic {
		return root, err
	}
	targets := map[string]*node{}
	for _, r := range c.resources {
		if r.nodes != nil || len(r.dynamic) == 0 {
			continue // also known by another URI
		}
		r.nodes = make(map[string]*node, len(r.dynamic))
		for name, at := range r.dynamic {
			n, err := c.node(at)
			if err != nil {
				return nil, err
			}
			r.nodes[name] = n
			if targets[name] == nil {
				targets[name] = &node{logic: &logic{}}
			}
			all := targets[name].logic
			all.anyOf = append(all.anyOf, n)
		}
	}
	for _, x := range c.refs {
		for i := range x.dynamic {
			x.dynamic[i].targets = targets[x.dynamic[i].name]
		}
	}
	return root, nil
}

// node compiles the subschema at a token, once.
func (c *compiler) node(at uint32) (*node, error) {
	p := &c.entries[at]
	if p.node != nil {
		return p.node, nil
	}
	n := &node{}
	p.node = n
	switch {
	case c.Tokens[at].Kind == kindObject:
		return n, c.schema(n, at, p.resource)
	case c.Tokens[at].Kind != kindBoolean:
		return nil, c.malformed(at, "must be an object or a boolean")
	case p.resource.draft == draft4:
		return nil, c.malformed(at, "must be an object")
	}
	n.always = c.isTrue(at)
	n.never = !n.always
	return n, nil
}

// nodeAt returns the node of the subschema at a JSON Pointer, or nil.
func (c *compiler) nodeAt(pointer string) *node {
	at, ok := c.at(pointer)
	if !ok {
		return nil
	}
	return c.entries[at].node
}

// subschema is a subschema while it is compiled: its node, and keywords that
// depend on each other.
type subschema struct {
	*node
	at       uint32
	resource *resource
	draft    draft
	extra    extra

	cond, then, otherwise              *node
	items, additionalItems             *node
	itemsList, prefix                  []*node
	hasItemsList                       bool
	contains                           *node
	minContains, maxContains           int
	patterns                           []patternProperty
	anyName                            bool
	additional                         *node
	required                           []string
	properties                         []property
	exclusiveMinimum, exclusiveMaximum bool // the booleans of draft 4
}

// schema compiles a subschema that is an object, keyword by keyword.
func (c *compiler) schema(n *node, at uint32, r *resource) error {
	s := subschema{node: n, at: at, resource: r, draft: r.draft, minContains: 1, maxContains: unbounded}
	t := c.Tokens[at]
	reference := false
	for i := at + 1; i < t.Next; i = c.Tokens[i+1].Next {
		name := c.Text(i)
		if name == "$ref" && c.Tokens[i+1].Kind == kindString {
			reference = true
		}
		if err := c.keyword(&s, name, i+1); err != nil {
			return err
		}
	}
	if reference && s.draft <= draft7 {
		*n = node{ref: n.ref} // up to draft 7, $ref makes its siblings meaningless
		s = subschema{node: n, at: at, resource: r, draft: r.draft, minContains: 1, maxContains: unbounded}
	}
	if err := c.finish(&s); err != nil {
		return err
	}
	n.always = n.trivial()
	if c.dynamic && !n.always {
		s.extra.resource = r
	}
	if x := &s.extra; x.resource != nil || x.dynamic != nil || x.unevaluatedProperties != nil ||
		x.unevaluatedItems != nil || x.unchecked {
		plain := *n
		x.plain = &plain
		*n = node{extra: x}
		if x.dynamic != nil {
			c.refs = append(c.refs, x)
		}
	}
	return nil
}

// finish combines the keywords that depend on each other.
func (c *compiler) finish(s *subschema) error {
	if s.cond != nil {
		l := s.logicRules()
		l.cond, l.then, l.otherwise = s.cond, s.then, s.otherwise
	}
	if err := c.finishNumber(s); err != nil {
		return err
	}
	s.finishArray()
	s.finishObject()
	return nil
}

func (n *node) trivial() bool {
	return !n.never && n.types == 0 && n.ref == nil && n.enum == nil && n.constant == nil &&
		n.object == nil && n.array == nil && n.text == nil && n.number == nil && n.logic == nil
}

// finishNumber applies the boolean exclusiveMinimum and exclusiveMaximum of draft 4.
func (c *compiler) finishNumber(s *subschema) error {
	if !s.exclusiveMinimum && !s.exclusiveMaximum {
		return nil
	}
	rules := s.numberRules()
	if s.exclusiveMinimum && rules.minimum != nil {
		rules.exclusive.minimum, rules.minimum = rules.minimum, nil
	}
	if s.exclusiveMaximum && rules.maximum != nil {
		rules.exclusive.maximum, rules.maximum = rules.maximum, nil
	}
	return nil
}

func (s *subschema) finishArray() {
	prefix, rest := s.prefix, s.items
	if s.hasItemsList { // before 2020-12
		prefix, rest = s.itemsList, s.additionalItems
	}
	if len(prefix) > 0 || rest != nil {
		a := s.arrayRules()
		a.prefix, a.rest = prefix, rest
	}
	if s.contains != nil {
		a := s.arrayRules()
		a.contains, a.minContained, a.maxContained = s.contains, s.minContains, s.maxContains
		a.containsEvaluates = s.draft >= draft2020
	}
}

func (s *subschema) finishObject() {
	if s.properties == nil && s.required == nil && s.patterns == nil && !s.anyName && s.additional == nil {
		return
	}
	o := s.objectRules()
	o.properties, o.patterns, o.anyName, o.additional = s.properties, s.patterns, s.anyName, s.additional
	var known map[string]int
	if len(o.properties)+len(s.required) > fewProperties {
		known = make(map[string]int, len(o.properties)+len(s.required))
		for i, p := range o.properties {
			known[p.name] = i
		}
	}
	for _, name := range s.required {
		i, ok := known[name]
		if known == nil {
			i = slices.IndexFunc(o.properties, func(p property) bool { return p.name == name })
			ok = i >= 0
		}
		if !ok {
			i = len(o.properties)
			o.properties = append(o.properties, property{name: name})
			if known != nil {
				known[name] = i
			}
		}
		o.properties[i].required = true
	}
	o.required = len(s.required)
	if len(o.properties) > fewProperties {
		o.index = known
	}
}

func (n *node) logicRules() *logic {
	if n.logic == nil {
		n.logic = &logic{}
	}
	return n.logic
}

func (n *node) objectRules() *objectRules {
	if n.object == nil {
		n.object = &objectRules{maximum: unbounded}
	}
	return n.object
}

func (n *node) arrayRules() *arrayRules {
	if n.array == nil {
		n.array = &arrayRules{maximum: unbounded, maxContained: unbounded}
	}
	return n.array
}

func (n *node) textRules() *textRules {
	if n.text == nil {
		n.text = &textRules{maximum: unbounded}
	}
	return n.text
}

func (n *node) numberRules() *numberRules {
	if n.number == nil {
		n.number = &numberRules{}
	}
	return n.number
}

// maxUnchecked bounds the keywords that are listed because they cannot be checked: finding their places takes time.
const maxUnchecked = 100

// skip records that a keyword cannot be checked.
func (c *compiler) skip(s *subschema, at uint32, reason string) {
	s.extra.unchecked = true
	if len(c.unchecked) < maxUnchecked {
		c.unchecked = append(c.unchecked, Unchecked{Pointer: c.pointerTo(at), Reason: reason})
	}
}

// must returns an error about the value at a token unless ok.
func (c *compiler) must(ok bool, at uint32, expectation string) error {
	if !ok {
		return c.malformed(at, expectation)
	}
	return nil
}

// schemas compiles an array of subschemas, which must not be empty.
func (c *compiler) schemas(at uint32) ([]*node, error) {
	t := c.Tokens[at]
	if t.Kind != kindArray || t.Count == 0 {
		return nil, c.malformed(at, "must be a non-empty array of schemas")
	}
	nodes := make([]*node, 0, t.Count)
	for i := at + 1; i < t.Next; i = c.Tokens[i].Next {
		n, err := c.node(i)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// schemaMap compiles an object of subschemas, in the order of the document.
func (c *compiler) schemaMap(at uint32, walk func(name uint32, n *node)) error {
	t := c.Tokens[at]
	if t.Kind != kindObject {
		return c.malformed(at, "must be an object of schemas")
	}
	for i := at + 1; i < t.Next; i = c.Tokens[i+1].Next {
		n, err := c.node(i + 1)
		if err != nil {
			return err
		}
		walk(i, n)
	}
	return nil
}

// strings reads an array of different strings, which must not be empty in draft 4.
func (c *compiler) strings(at uint32, d draft) ([]string, error) {
	t := c.Tokens[at]
	if t.Kind != kindArray || t.Count == 0 && d == draft4 {
		return nil, c.malformed(at, "must be an array of strings")
	}
	var seen map[string]bool
	if t.Count > fewProperties {
		seen = make(map[string]bool, t.Count)
	}
	list := make([]string, 0, t.Count)
	for i := at + 1; i < t.Next; i = c.Tokens[i].Next {
		if c.Tokens[i].Kind != kindString {
			return nil, c.malformed(i, "must be a string")
		}
		text := c.Text(i)
		if seen[text] || seen == nil && slices.Contains(list, text) {
			return nil, c.malformed(i, "must not occur twice")
		}
		if seen != nil {
			seen[text] = true
		}
		list = append(list, text)
	}
	return list, nil
}

// size reads a non-negative integer. A size that is too large for an int cannot be
// reached.
func (c *compiler) size(at uint32) (int, error) {
	if c.Tokens[at].Kind != kindNumber {
		return 0, c.malformed(at, "must be a non-negative integer")
	}
	d := parseDecimal(c.Bytes(at))
	if d.negative || !d.isInteger() {
		return 0, c.malformed(at, "must be a non-negative integer")
	}
	if d.point > 9 {
		return math.MaxInt32, nil
	}
	n := 0
	for i := range int(d.point) {
		n *= 10
		if i < d.len() {
			n += int(d.digit(i) - '0')
		}
	}
	return n, nil
}

func (c *compiler) bound(at uint32) (*bound, error) {
	if c.Tokens[at].Kind != kindNumber {
		return nil, c.malformed(at, "must be a number")
	}
	return newBound(c.Bytes(at)), nil
}

// findRecursive gives a name to each type that contains itself.
func (in *inference) findRecursive(t reflect.Type, done map[reflect.Type]bool) error {
	t, err := indirect(t)
	if err != nil {
		return &typeError{Path: t.String(), Reason: err.Error()}
	}
	if _, own := ownSchema(t); own || representationOf(t) != plainType || done[t] && !in.open[t] {
		return nil
	}
	if in.open[t] {
		if _, ok := in.names[t]; !ok {
			in.names[t] = in.nameFor(t)
			in.ordered = append(in.ordered, t)
		}
		return nil
	}
	in.open[t], done[t] = true, true
	defer delete(in.open, t)
	switch t.Kind() {
	case reflect.Struct:
		fields, rest, err := fieldsOf(t)
		if err != nil {
			return err
		}
		for _, f := range fields {
			if err := in.findRecursive(f.typ, done); err != nil {
				return err
			}
		}
		if rest != nil {
			return in.findRecursive(rest, done)
		}
	case reflect.Slice, reflect.Array, reflect.Map:
		return in.findRecursive(t.Elem(), done)
	}
	return nil
}

// nameFor returns a unique name for t: its own name, without the characters that a
// reference would have to escape.
func (in *inference) nameFor(t reflect.Type) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_':
			return r
		}
		return '_'
	}, typeName(t))
	clean = strings.Trim(clean, "_")
	name := clean
	for i := 2; in.taken[name]; i++ {
		name = clean + "_" + strconv.Itoa(i)
	}
	in.taken[name] = true
	return name
}

// typeName is the name of t without the path of its package.
func typeName(t reflect.Type) string {
	if t.Name() == "" {
		return t.String()
	}
	name, arguments, generic := strings.Cut(t.Name(), "[")
	if !generic {
		return name
	}
	// Type arguments contain the full path of their packages.
	var short []string
	for argument := range strings.SplitSeq(strings.TrimSuffix(arguments, "]"), ",") {
		short = append(short, argument[strings.LastIndexAny(argument, "/")+1:])
	}
	return name + "[" + strings.Join(short, ",") + "]"
}
