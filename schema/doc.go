// Package schema infers JSON Schemas from Go types, compiles schema documents, and
// validates raw bytes against both.
//
// # From a Go type
//
// [For] describes the JSON that [Decode] reads and [Marshal] writes. The json tag names a property; further tags
// describe it:
//
//	type Booking struct {
//		Table  string        `json:"table" doc:"which table" enum:"red,blue"`
//		Guests int           `json:"guests" minimum:"1" maximum:"12" default:"2"`
//		Length time.Duration `json:"length,omitzero" title:"Length of stay"`
//		Notes  *string       `json:"notes" maxLength:"500"`
//		Region string        `json:"region" mcp-header:"Region"`
//	}
//
//	doc, title                  describe the value (doc is the description)
//	default                     JSON, or the text itself for a string; the property becomes optional
//	enum                        values, separated by commas
//	minimum, maximum            for numbers, exact at any size
//	minLength, maxLength        for strings, in code points
//	pattern, format             for strings; format is an annotation
//	minItems, maxItems          for slices
//	mcp-header                  mirrors the value into the header Mcp-Param-…; see Headers
//
// A tag that resembles one of these, such as minLenght, is an error. A tag with which another library describes
// properties (jsonschema, description, enums) is an error, too, unless the field also has one of the tags above. All
// other tags are ignored.
//
// On a slice or an array of scalars, enum and the constraints of numbers and
// strings apply to the elements.
//
// Integer types of less than 64 bits are bounded by their range, unsigned ones by zero. Decode rejects numbers that do
// not fit into 64 bits.
//
// # From a document
//
// [Compile] accepts a schema of draft 4, 6, 7, 2019-09 or 2020-12, which is the
// default, and keeps its bytes. It never fetches anything, and "format" is an annotation in every draft. The schema
// becomes a program that checks the bytes of an instance in one pass, without decoding them and mostly without
// allocating.
//
// Compile rejects what the meta-schema of the draft rejects. It accepts keywords
// that it cannot check, such as a regular expression with a look-ahead; Validate
// ignores them, and [Schema.Unchecked] lists them. Regular expressions have the
// syntax of package regexp.
//
// # Bounds
//
// Schemas and instances may be hostile. A schema has at most 10,000 subschemas, nested up to
// 64 deep, and regular expressions of at most 4 KiB. They take at most 16 MiB of memory in all; a [Budget] bounds the
// memory of several schemas. A validation takes at most 100 ms, and an
// instance has at most 128 levels and a million values. Numbers are
// compared exactly, as they are spelled, and 1e1000000000 costs no more than 1.
package schema
