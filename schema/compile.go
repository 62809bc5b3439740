package schema

import (
	"errors"
	"math"
	"regexp"
)

// errBeyond says that the fast path does not know what a schema asks for, or
// that the schema is malformed: the library compiles it, or says what is wrong.
var errBeyond = errors.New("schema: beyond the fast path")

// compiler turns a surveyed document into a program. It accepts only what it
// knows to be well-formed in every detail that the draft's own schema demands, so
// that whatever it accepts the library would accept.
type compiler struct {
	*survey
	nodes map[uint32]*node
}

// compile returns the root of the program, or errBeyond.
func (c *compiler) compile() (*node, error) {
	if c.dialect < draft7 || c.embedded || c.repeated {
		return nil, errBeyond
	}
	return c.node(0)
}

// node compiles the subschema at a token, once.
func (c *compiler) node(at uint32) (*node, error) {
	if n, ok := c.nodes[at]; ok {
		return n, nil
	}
	n := &node{}
	c.nodes[at] = n
	switch c.Tokens[at].Kind {
	case kindBoolean:
		n.always = c.isTrue(at)
		n.never = !n.always
		return n, nil
	case kindObject:
		return n, c.object(n, at)
	}
	return nil, errBeyond
}

// keywords is what has to wait until all keywords of a subschema have been seen.
type keywords struct {
	cond, then, otherwise    *node
	items                    *node
	itemsList, prefix        []*node
	hasItemsList             bool
	additionalItems          *node
	contains                 *node
	minContains, maxContains int
	hasMinContains           bool
	patterns                 []patternProperty
	additional               *node
	required                 []string
	properties               []property
	assertions, reference    bool
}

// object compiles a subschema that is an object, keyword by keyword.
func (c *compiler) object(n *node, at uint32) error {
	k := keywords{maxContains: unbounded}
	t := &c.Tokens[at]
	for i := at + 1; i < t.Next; i = c.Tokens[i+1].Next {
		if err := c.keyword(n, &k, at, c.text(i), i+1); err != nil {
			return err
		}
	}
	if c.dialect == draft7 && k.reference && k.assertions {
		return errBeyond // draft 7 ignores what stands beside $ref, the library not all of it
	}
	if k.cond != nil && (k.then != nil || k.otherwise != nil) {
		l := n.logicRules()
		l.cond, l.then, l.otherwise = k.cond, k.then, k.otherwise
	}
	c.finishArray(n, &k)
	finishObject(n, &k)
	n.always = n.trivial()
	return nil
}

func (n *node) trivial() bool {
	return !n.never && n.types == 0 && n.ref == nil && n.enum == nil && n.constant == nil &&
		n.object == nil && n.array == nil && n.text == nil && n.number == nil && n.logic == nil
}

func (c *compiler) finishArray(n *node, k *keywords) {
	prefix, rest := k.prefix, k.items
	if k.hasItemsList { // before 2020-12
		prefix, rest = k.itemsList, k.additionalItems
	}
	if len(prefix) > 0 || rest != nil {
		a := n.arrayRules()
		a.prefix, a.rest = prefix, rest
	}
	if k.contains != nil {
		a := n.arrayRules()
		a.contains, a.minContained, a.maxContained = k.contains, 1, k.maxContains
		if k.hasMinContains {
			a.minContained = k.minContains
		}
	}
}

func finishObject(n *node, k *keywords) {
	if k.properties == nil && k.required == nil && k.patterns == nil && k.additional == nil {
		return
	}
	o := n.objectRules()
	o.properties, o.patterns, o.additional = k.properties, k.patterns, k.additional
	known := make(map[string]int, len(o.properties))
	for i, p := range o.properties {
		known[p.name] = i
	}
	for _, name := range k.required {
		i, ok := known[name]
		if !ok {
			i = len(o.properties)
			known[name] = i
			o.properties = append(o.properties, property{name: name})
		}
		o.properties[i].required = true
	}
	o.required = len(k.required)
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

// want returns errBeyond unless ok.
func want(ok bool) error {
	if !ok {
		return errBeyond
	}
	return nil
}

// schemas compiles an array of subschemas, which must not be empty.
func (c *compiler) schemas(at uint32) ([]*node, error) {
	t := &c.Tokens[at]
	if t.Kind != kindArray || t.Count == 0 {
		return nil, errBeyond
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

// schemaMap compiles an object of subschemas, in document order.
func (c *compiler) schemaMap(at uint32, visit func(name string, n *node) error) error {
	t := &c.Tokens[at]
	if t.Kind != kindObject {
		return errBeyond
	}
	for i := at + 1; i < t.Next; i = c.Tokens[i+1].Next {
		n, err := c.node(i + 1)
		if err != nil {
			return err
		}
		if err := visit(c.text(i), n); err != nil {
			return err
		}
	}
	return nil
}

// strings reads an array of different strings.
func (c *compiler) strings(at uint32) ([]string, error) {
	t := &c.Tokens[at]
	if t.Kind != kindArray {
		return nil, errBeyond
	}
	seen := make(map[string]bool, t.Count)
	list := make([]string, 0, t.Count)
	for i := at + 1; i < t.Next; i = c.Tokens[i].Next {
		if c.Tokens[i].Kind != kindString || seen[c.text(i)] {
			return nil, errBeyond
		}
		seen[c.text(i)] = true
		list = append(list, c.text(i))
	}
	return list, nil
}

// size reads a non-negative integer; what is too large for an int cannot be
// reached either.
func (c *compiler) size(at uint32) (int, error) {
	t := &c.Tokens[at]
	if t.Kind != kindNumber {
		return 0, errBeyond
	}
	d := parseDecimal(c.bytes(at))
	if d.negative || !d.isInteger() {
		return 0, errBeyond
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
		return nil, errBeyond
	}
	return newBound(c.bytes(at)), nil
}

// anchorName is what both drafts that have $anchor allow.
var anchorName = regexp.MustCompile(`^[A-Za-z][-A-Za-z0-9._]*$`)
