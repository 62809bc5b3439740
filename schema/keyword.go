package schema

import (
	"strings"

	"github.com/parley-mcp/parley/internal/jsonscan"
)

// keyword compiles one keyword of the subschema at owner into n, or into k if it
// depends on others.
func (c *compiler) keyword(n *node, k *keywords, owner uint32, name string, at uint32) error {
	is := c.Tokens[at].Kind
	var err error
	switch name {
	case "$schema":
		return want(is == kindString && owner == 0)
	case "$id":
		// Anything less plain is for the library to resolve.
		return want(is == kindString && owner == 0 && !strings.Contains(c.text(at), "#"))
	case "$comment", "title", "description":
		return want(is == kindString)
	case "contentEncoding", "contentMediaType":
		k.assertions = true
		return want(is == kindString)
	case "default":
		return nil
	case "examples":
		return want(is == kindArray)
	case "readOnly", "writeOnly":
		return want(is == kindBoolean)
	case "deprecated":
		return want(is == kindBoolean || c.dialect < draft2019)
	case "contentSchema":
		if c.dialect < draft2019 {
			return errBeyond
		}
		_, err = c.node(at)
		return err
	case "$defs":
		if c.dialect < draft2019 {
			return errBeyond
		}
		return c.schemaMap(at, func(string, *node) error { return nil })
	case "definitions":
		return c.schemaMap(at, func(string, *node) error { return nil })
	case "$anchor":
		return want(c.dialect >= draft2019 && is == kindString && anchorName.MatchString(c.text(at)))
	case "$ref":
		k.reference = true
		if is != kindString {
			return errBeyond
		}
		n.ref, err = c.ref(c.text(at))
		return err
	}
	k.assertions = true
	switch name {
	case "type":
		n.types, err = c.types(at)
		return err
	case "enum":
		if is != kindArray {
			return errBeyond
		}
		var values []uint32
		for i := at + 1; i < c.Tokens[at].Next; i = c.Tokens[i].Next {
			values = append(values, i)
		}
		n.enum = newValueSet(c.document, values)
		// Draft 7 wants at least one value, and each once; later ones take any.
		return want(c.dialect > draft7 || len(values) > 0 && len(n.enum.canonical) == len(values))
	case "const":
		n.constant = newValueSet(c.document, []uint32{at})
		return nil
	}
	for _, group := range []func(*node, *keywords, string, uint32) (bool, error){
		c.logicKeyword, c.objectKeyword, c.arrayKeyword, c.textKeyword, c.numberKeyword,
	} {
		if known, err := group(n, k, name, at); known || err != nil {
			return err
		}
	}
	// Keywords of no draft are annotations; those of other drafts, or with effects
	// at a distance, are not for us.
	return want(keywordHolds(name) == holdsUnknown)
}

// ref resolves a reference within the document: "#", a pointer or an anchor.
func (c *compiler) ref(text string) (*node, error) {
	fragment, ok := strings.CutPrefix(text, "#")
	if !ok || strings.Contains(fragment, "%") {
		return nil, errBeyond
	}
	var at uint32
	switch {
	case fragment == "":
	case fragment[0] == '/':
		at, ok = c.targets[fragment]
	case c.dialect >= draft2019:
		at, ok = c.anchors[fragment]
	default:
		ok = false
	}
	if !ok {
		return nil, errBeyond
	}
	return c.node(at)
}

func (c *compiler) types(at uint32) (kind, error) {
	t := &c.Tokens[at]
	if t.Kind == kindString {
		k, ok := jsonscan.KindNamed(c.text(at))
		return k, want(ok)
	}
	if t.Kind != kindArray || t.Count == 0 {
		return 0, errBeyond
	}
	var set kind
	for i := at + 1; i < t.Next; i = c.Tokens[i].Next {
		if c.Tokens[i].Kind != kindString {
			return 0, errBeyond
		}
		k, ok := jsonscan.KindNamed(c.text(i))
		if !ok || set&k != 0 {
			return 0, errBeyond
		}
		set |= k
	}
	return set, nil
}

func (c *compiler) logicKeyword(n *node, k *keywords, name string, at uint32) (known bool, err error) {
	switch name {
	case "allOf":
		n.logicRules().allOf, err = c.schemas(at)
	case "anyOf":
		n.logicRules().anyOf, err = c.schemas(at)
	case "oneOf":
		n.logicRules().oneOf, err = c.schemas(at)
	case "not":
		n.logicRules().not, err = c.node(at)
	case "if":
		k.cond, err = c.node(at)
	case "then":
		k.then, err = c.node(at)
	case "else":
		k.otherwise, err = c.node(at)
	default:
		return false, nil
	}
	return true, err
}

func (c *compiler) objectKeyword(n *node, k *keywords, name string, at uint32) (known bool, err error) {
	switch name {
	case "properties":
		k.properties = make([]property, 0, c.Tokens[at].Count)
		err = c.schemaMap(at, func(name string, sub *node) error {
			k.properties = append(k.properties, property{name: name, node: sub})
			return nil
		})
	case "patternProperties":
		err = c.schemaMap(at, func(name string, sub *node) error {
			p := c.survey.patterns.get(name)
			k.patterns = append(k.patterns, patternProperty{pattern: p, node: sub})
			return want(p != nil)
		})
	case "additionalProperties":
		k.additional, err = c.node(at)
	case "propertyNames":
		n.objectRules().names, err = c.node(at)
	case "required":
		k.required, err = c.strings(at)
	case "minProperties":
		n.objectRules().minimum, err = c.size(at)
	case "maxProperties":
		n.objectRules().maximum, err = c.size(at)
	case "dependentRequired":
		err = c.dependentRequired(n.objectRules(), at)
	case "dependentSchemas":
		if c.dialect < draft2019 {
			return true, errBeyond
		}
		err = c.schemaMap(at, func(name string, sub *node) error {
			n.objectRules().dependents = append(n.objectRules().dependents, dependent{name: name, node: sub})
			return nil
		})
	default:
		return false, nil
	}
	return true, err
}

func (c *compiler) dependentRequired(o *objectRules, at uint32) error {
	t := &c.Tokens[at]
	if c.dialect < draft2019 || t.Kind != kindObject {
		return errBeyond
	}
	for i := at + 1; i < t.Next; i = c.Tokens[i+1].Next {
		names, err := c.strings(i + 1)
		if err != nil {
			return err
		}
		o.dependents = append(o.dependents, dependent{name: c.text(i), requires: names})
	}
	return nil
}

func (c *compiler) arrayKeyword(n *node, k *keywords, name string, at uint32) (known bool, err error) {
	switch name {
	case "items":
		if c.Tokens[at].Kind == kindArray {
			if c.dialect >= draft2020 {
				return true, errBeyond
			}
			k.hasItemsList = true
			if c.Tokens[at].Count == 0 {
				return true, errBeyond
			}
			k.itemsList, err = c.schemas(at)
			break
		}
		k.items, err = c.node(at)
	case "prefixItems":
		if c.dialect < draft2020 {
			return true, errBeyond
		}
		k.prefix, err = c.schemas(at)
	case "additionalItems":
		if c.dialect >= draft2020 {
			return true, errBeyond
		}
		k.additionalItems, err = c.node(at)
	case "contains":
		k.contains, err = c.node(at)
	case "minContains":
		if c.dialect < draft2019 {
			return true, errBeyond
		}
		k.hasMinContains = true
		k.minContains, err = c.size(at)
	case "maxContains":
		if c.dialect < draft2019 {
			return true, errBeyond
		}
		k.maxContains, err = c.size(at)
	case "minItems":
		n.arrayRules().minimum, err = c.size(at)
	case "maxItems":
		n.arrayRules().maximum, err = c.size(at)
	case "uniqueItems":
		if c.Tokens[at].Kind != kindBoolean {
			return true, errBeyond
		}
		if c.isTrue(at) {
			n.arrayRules().unique = true
		}
	default:
		return false, nil
	}
	return true, err
}

func (c *compiler) textKeyword(n *node, _ *keywords, name string, at uint32) (known bool, err error) {
	switch name {
	case "minLength":
		n.textRules().minimum, err = c.size(at)
	case "maxLength":
		n.textRules().maximum, err = c.size(at)
	case "pattern":
		if c.Tokens[at].Kind != kindString {
			return true, errBeyond
		}
		p := c.survey.patterns.get(c.text(at))
		n.textRules().pattern = p
		err = want(p != nil)
	case "format":
		if c.Tokens[at].Kind != kindString {
			return true, errBeyond
		}
		if c.dialect == draft7 {
			if f := libraryFormat(c.text(at), c.limits.MaxRegexp); f != nil {
				n.textRules().format = f
			}
		}
	default:
		return false, nil
	}
	return true, err
}

func (c *compiler) numberKeyword(n *node, _ *keywords, name string, at uint32) (known bool, err error) {
	switch name {
	case "minimum":
		n.numberRules().minimum, err = c.bound(at)
	case "maximum":
		n.numberRules().maximum, err = c.bound(at)
	case "exclusiveMinimum":
		n.numberRules().exclusive.minimum, err = c.bound(at)
	case "exclusiveMaximum":
		n.numberRules().exclusive.maximum, err = c.bound(at)
	case "multipleOf":
		if c.Tokens[at].Kind != kindNumber {
			return true, errBeyond
		}
		d := parseDecimal(c.bytes(at))
		if d.negative || d.len() == 0 {
			return true, errBeyond
		}
		v, ok := newDivisor(&d)
		n.numberRules().multipleOf, n.numberRules().multipleOfSpelling = &v, string(c.bytes(at))
		err = want(ok)
	default:
		return false, nil
	}
	return true, err
}
