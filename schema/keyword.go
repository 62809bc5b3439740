package schema

import (
	"cmp"

	"github.com/parley-mcp/parley/internal/jsonscan"
)

// keyword compiles one keyword of a subschema. at is the token of its value.
func (c *compiler) keyword(s *subschema, name string, at uint32) error {
	if s.draft.keyword(name).content == isUnknown {
		return nil // an annotation
	}
	is := c.Tokens[at].Kind
	var err error
	switch name {
	case "$schema", "$id", "id", "$comment", "title", "description", "format", "contentEncoding", "contentMediaType":
		return c.must(is == kindString, at, "must be a string")
	case "default":
		return nil
	case "examples":
		return c.must(is == kindArray, at, "must be an array")
	case "readOnly", "writeOnly", "deprecated":
		return c.must(is == kindBoolean, at, "must be a boolean")
	case "contentSchema":
		_, err = c.node(at)
		return err
	case "$defs", "definitions":
		return c.schemaMap(at, func(uint32, *node) {})
	case "$vocabulary":
		return c.vocabulary(at)
	case "$anchor", "$dynamicAnchor":
		return c.must(is == kindString && isAnchor(c.Text(at), s.draft), at, "must be the name of an anchor")
	case "$recursiveAnchor":
		if s.draft == draft2020 {
			return c.must(is == kindString && isAnchor(c.Text(at), draft2020), at, "must be the name of an anchor")
		}
		return c.must(is == kindBoolean, at, "must be a boolean")
	case "$ref", "$dynamicRef", "$recursiveRef":
		return c.reference(s, name, at)
	case "unevaluatedProperties":
		s.extra.unevaluatedProperties, err = c.node(at)
		return err
	case "unevaluatedItems":
		s.extra.unevaluatedItems, err = c.node(at)
		return err
	}
	for _, group := range []func(*compiler, *subschema, string, uint32) (bool, error){
		(*compiler).valueKeyword, (*compiler).logicKeyword, (*compiler).objectKeyword, (*compiler).arrayKeyword,
		(*compiler).textKeyword, (*compiler).numberKeyword,
	} {
		if known, err := group(c, s, name, at); known || err != nil {
			return err
		}
	}
	return nil
}

// isAnchor reports whether name can be the name of an anchor.
func isAnchor(name string, d draft) bool {
	for i := range len(name) {
		b := name[i]
		switch {
		case 'A' <= b && b <= 'Z', 'a' <= b && b <= 'z':
		case b == '_' && (i > 0 || d >= draft2020):
		case i > 0 && (b == '-' || b == '.' || '0' <= b && b <= '9'):
		case i > 0 && b == ':' && d == draft2019:
		default:
			return false
		}
	}
	return name != ""
}

// vocabulary checks the value of $vocabulary. Its meaning matters only for
// meta-schemas.
func (c *compiler) vocabulary(at uint32) error {
	t := c.Tokens[at]
	if t.Kind != kindObject {
		return c.malformed(at, "must be an object")
	}
	for i := at + 1; i < t.Next; i = c.Tokens[i+1].Next {
		if c.Tokens[i+1].Kind != kindBoolean {
			return c.malformed(i+1, "must be a boolean")
		}
	}
	return nil
}

// reference compiles a reference whose target the index knows.
func (c *compiler) reference(s *subschema, name string, at uint32) error {
	if c.Tokens[at].Kind != kindString {
		return c.malformed(at, "must be a string")
	}
	target, ok := c.targets[at]
	if !ok {
		return nil // meaningless in this draft
	}
	n, err := c.node(target)
	if err != nil {
		return err
	}
	switch anchor, dynamic := c.dynamicName(name, at); {
	case dynamic:
		s.extra.dynamic = append(s.extra.dynamic, dynamicRef{name: anchor, fallback: n})
	case s.ref == nil:
		s.ref = n
	default: // $ref and $dynamicRef in one subschema
		s.logicRules().allOf = append(s.logicRules().allOf, n)
	}
	return nil
}

func (c *compiler) valueKeyword(s *subschema, name string, at uint32) (known bool, err error) {
	switch name {
	case "type":
		s.types, err = c.types(at)
	case "enum":
		t := c.Tokens[at]
		if t.Kind != kindArray || t.Count == 0 && s.draft == draft4 {
			return true, c.malformed(at, "must be an array of values")
		}
		values := make([]uint32, 0, t.Count)
		for i := at + 1; i < t.Next; i = c.Tokens[i].Next {
			values = append(values, i)
		}
		s.enum = newValueSet(c.document, values)
		if s.draft == draft4 && len(s.enum.canonical) < len(values) {
			return true, c.malformed(at, "must not contain a value twice")
		}
	case "const":
		s.constant = newValueSet(c.document, []uint32{at})
	default:
		return false, nil
	}
	return true, err
}

// types reads the value of "type".
func (c *compiler) types(at uint32) (kind, error) {
	t := c.Tokens[at]
	if t.Kind == kindString {
		return c.typeNamed(at)
	}
	if t.Kind != kindArray || t.Count == 0 {
		return 0, c.malformed(at, "must be a type or a non-empty array of types")
	}
	var set kind
	for i := at + 1; i < t.Next; i = c.Tokens[i].Next {
		k, err := c.typeNamed(i)
		if err != nil {
			return 0, err
		}
		if set&k != 0 {
			return 0, c.malformed(i, "must not occur twice")
		}
		set |= k
	}
	return set, nil
}

func (c *compiler) typeNamed(at uint32) (kind, error) {
	if c.Tokens[at].Kind == kindString {
		if k, ok := jsonscan.KindNamed(c.Text(at)); ok {
			return k, nil
		}
	}
	return 0, c.malformed(at, `must be one of "array", "boolean", "integer", "null", "number", "object", "string"`)
}

func (c *compiler) logicKeyword(s *subschema, name string, at uint32) (known bool, err error) {
	switch name {
	case "allOf":
		var nodes []*node
		nodes, err = c.schemas(at)
		s.logicRules().allOf = append(s.logicRules().allOf, nodes...)
	case "anyOf":
		s.logicRules().anyOf, err = c.schemas(at)
	case "oneOf":
		s.logicRules().oneOf, err = c.schemas(at)
	case "not":
		s.logicRules().not, err = c.node(at)
	case "if":
		s.cond, err = c.node(at)
	case "then":
		s.then, err = c.node(at)
	case "else":
		s.otherwise, err = c.node(at)
	default:
		return false, nil
	}
	return true, err
}

func (c *compiler) objectKeyword(s *subschema, name string, at uint32) (known bool, err error) {
	switch name {
	case "properties":
		s.properties = make([]property, 0, c.Tokens[at].Count)
		err = c.schemaMap(at, func(name uint32, n *node) {
			s.properties = append(s.properties, property{name: c.Text(name), node: n})
		})
	case "patternProperties":
		err = c.patternProperties(s, at)
	case "additionalProperties":
		s.additional, err = c.nodeOrBoolean(s, at)
	case "propertyNames":
		s.objectRules().names, err = c.node(at)
	case "required":
		s.required, err = c.strings(at, s.draft)
	case "minProperties":
		s.objectRules().minimum, err = c.size(at)
	case "maxProperties":
		s.objectRules().maximum, err = c.size(at)
	case "dependentRequired", "dependentSchemas", "dependencies":
		err = c.dependents(s, name, at)
	default:
		return false, nil
	}
	return true, err
}

func (c *compiler) patternProperties(s *subschema, at uint32) error {
	var failed error
	err := c.schemaMap(at, func(name uint32, n *node) {
		p, err := c.pattern(s, name)
		switch {
		case err != nil:
			failed = cmp.Or(failed, err)
		case p == nil:
			s.anyName = true
		default:
			s.patterns = append(s.patterns, patternProperty{p, n})
		}
	})
	return cmp.Or(err, failed)
}

// pattern returns the regular expression at a token, or nil if it cannot be checked.
func (c *compiler) pattern(s *subschema, at uint32) (*pattern, error) {
	p, err := c.patterns.get(c.Text(at))
	if err != nil {
		return nil, err
	}
	if p.expression == nil {
		c.skip(s, at, p.fault)
		return nil, nil
	}
	return p, nil
}

// nodeOrBoolean compiles a subschema that can be a boolean even in draft 4.
func (c *compiler) nodeOrBoolean(s *subschema, at uint32) (*node, error) {
	if s.draft == draft4 && c.Tokens[at].Kind == kindBoolean {
		return &node{always: c.isTrue(at), never: !c.isTrue(at)}, nil
	}
	return c.node(at)
}

// dependents compiles the keywords that apply if a property is present.
func (c *compiler) dependents(s *subschema, keyword string, at uint32) error {
	t := c.Tokens[at]
	if t.Kind != kindObject {
		return c.malformed(at, "must be an object")
	}
	for i := at + 1; i < t.Next; i = c.Tokens[i+1].Next {
		d := dependent{name: c.Text(i)}
		var err error
		if keyword == "dependentRequired" || keyword == "dependencies" && c.Tokens[i+1].Kind == kindArray {
			d.requires, err = c.strings(i+1, s.draft)
		} else {
			d.node, err = c.node(i + 1)
		}
		if err != nil {
			return err
		}
		s.objectRules().dependents = append(s.objectRules().dependents, d)
	}
	return nil
}

func (c *compiler) arrayKeyword(s *subschema, name string, at uint32) (known bool, err error) {
	switch name {
	case "items":
		if c.Tokens[at].Kind == kindArray && s.draft < draft2020 {
			s.hasItemsList = true
			s.itemsList, err = c.schemas(at)
			break
		}
		s.items, err = c.node(at)
	case "prefixItems":
		s.prefix, err = c.schemas(at)
	case "additionalItems":
		s.additionalItems, err = c.nodeOrBoolean(s, at)
	case "contains":
		s.contains, err = c.node(at)
	case "minContains":
		s.minContains, err = c.size(at)
	case "maxContains":
		s.maxContains, err = c.size(at)
	case "minItems":
		s.arrayRules().minimum, err = c.size(at)
	case "maxItems":
		s.arrayRules().maximum, err = c.size(at)
	case "uniqueItems":
		if c.Tokens[at].Kind != kindBoolean {
			return true, c.malformed(at, "must be a boolean")
		}
		if c.isTrue(at) {
			s.arrayRules().unique = true
		}
	default:
		return false, nil
	}
	return true, err
}

func (c *compiler) textKeyword(s *subschema, name string, at uint32) (known bool, err error) {
	switch name {
	case "minLength":
		s.textRules().minimum, err = c.size(at)
	case "maxLength":
		s.textRules().maximum, err = c.size(at)
	case "pattern":
		if c.Tokens[at].Kind != kindString {
			return true, c.malformed(at, "must be a string")
		}
		var p *pattern
		if p, err = c.pattern(s, at); p != nil {
			s.textRules().pattern = p
		}
	default:
		return false, nil
	}
	return true, err
}

func (c *compiler) numberKeyword(s *subschema, name string, at uint32) (known bool, err error) {
	switch name {
	case "minimum":
		s.numberRules().minimum, err = c.bound(at)
	case "maximum":
		s.numberRules().maximum, err = c.bound(at)
	case "exclusiveMinimum", "exclusiveMaximum":
		err = c.exclusive(s, name, at)
	case "multipleOf":
		if c.Tokens[at].Kind != kindNumber {
			return true, c.malformed(at, "must be a number")
		}
		d := parseDecimal(c.Bytes(at))
		if d.negative || d.len() == 0 {
			return true, c.malformed(at, "must be greater than zero")
		}
		v, ok := newDivisor(&d)
		if !ok {
			c.skip(s, at, "the number has too many digits")
			break
		}
		s.numberRules().multipleOf, s.numberRules().multipleOfSpelling = v, string(c.Bytes(at))
	default:
		return false, nil
	}
	return true, err
}

// exclusive compiles exclusiveMinimum or exclusiveMaximum: a bound, or in draft 4
// a boolean that applies to the other keyword.
func (c *compiler) exclusive(s *subschema, name string, at uint32) (err error) {
	inclusive := "minimum"
	if name == "exclusiveMaximum" {
		inclusive = "maximum"
	}
	if s.draft > draft4 {
		b, err := c.bound(at)
		if inclusive == "minimum" {
			s.numberRules().exclusive.minimum = b
		} else {
			s.numberRules().exclusive.maximum = b
		}
		return err
	}
	if c.Tokens[at].Kind != kindBoolean {
		return c.malformed(at, "must be a boolean")
	}
	if _, ok := c.member(s.at, inclusive); !ok {
		return c.malformed(s.at, "must have "+inclusive+" because it has "+name)
	}
	if inclusive == "minimum" {
		s.exclusiveMinimum = c.isTrue(at)
	} else {
		s.exclusiveMaximum = c.isTrue(at)
	}
	return nil
}
