package schema

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// WithoutBooleans returns a schema document in which the subschemas true and false are replaced by {} and {"not":{}},
// which mean the same: many clients and models reject a whole list of tools because of such a boolean. It keeps the
// booleans of additionalProperties, additionalItems, unevaluatedProperties and unevaluatedItems, which are common. It
// returns raw if nothing changes or raw is not strict JSON, and never modifies raw.
func WithoutBooleans(raw []byte) []byte {
	if !bytes.Contains(raw, []byte("true")) && !bytes.Contains(raw, []byte("false")) {
		return raw
	}
	o := objects{decoder: jsontext.NewDecoder(bytes.NewBuffer(raw)), raw: raw}
	if o.schema() != nil || o.copied == 0 {
		return raw
	}
	return append(o.out, raw[o.copied:]...)
}

// objects replaces boolean subschemas.
type objects struct {
	decoder *jsontext.Decoder
	raw     []byte
	out     []byte // raw[:copied] with replacements
	copied  int
}

// schema reads a schema.
func (o *objects) schema() error {
	switch kind := o.decoder.PeekKind(); kind {
	case '{':
		return o.members(func(name string) error {
			switch name {
			case "additionalProperties", "additionalItems", "unevaluatedProperties", "unevaluatedItems":
				if k := o.decoder.PeekKind(); k == 't' || k == 'f' {
					return o.decoder.SkipValue()
				}
			}
			return o.value(keywordNamed(name).content)
		})
	case 't', 'f':
		if err := o.decoder.SkipValue(); err != nil {
			return err
		}
		object, length := "{}", len("true")
		if kind == 'f' {
			object, length = `{"not":{}}`, len("false")
		}
		end := int(o.decoder.InputOffset())
		o.out = append(append(o.out, o.raw[o.copied:end-length]...), object...)
		o.copied = end
		return nil
	}
	return o.decoder.SkipValue()
}

// value reads the value of a keyword.
func (o *objects) value(c content) error {
	kind := o.decoder.PeekKind()
	switch {
	case (c == schemaList || c == schemaOrList) && kind == '[':
		if _, err := o.decoder.ReadToken(); err != nil {
			return err
		}
		for o.decoder.PeekKind() != ']' {
			if err := o.schema(); err != nil {
				return err
			}
		}
		_, err := o.decoder.ReadToken()
		return err
	case (c == schemaMap || c == schemaOrNamesMap) && kind == '{':
		return o.members(func(string) error { return o.schema() })
	case c == oneSchema || c == schemaOrList:
		return o.schema()
	}
	return o.decoder.SkipValue()
}

// members reads an object. It calls read for each key, to read its value.
func (o *objects) members(read func(name string) error) error {
	if _, err := o.decoder.ReadToken(); err != nil {
		return err
	}
	for o.decoder.PeekKind() != '}' {
		name, err := o.decoder.ReadToken()
		if err != nil {
			return err
		}
		if err := read(name.String()); err != nil {
			return err
		}
	}
	_, err := o.decoder.ReadToken()
	return err
}
