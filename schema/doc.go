// Package schema infers JSON Schemas from Go types, compiles the schemas of
// others, and validates raw bytes against either.
//
// # From a Go type
//
// [For] describes the JSON that [Decode] reads and [Marshal] writes. The name of a
// member comes from the json tag, everything else from tags of its own:
//
//	type Booking struct {
//		Room   string        `json:"room" doc:"which room" enum:"red,blue"`
//		Guests int           `json:"guests" minimum:"1" maximum:"12" default:"2"`
//		Length time.Duration `json:"length,omitzero" title:"Length of stay"`
//		Notes  *string       `json:"notes" maxLength:"500"`
//		Region string        `json:"region" mcp-header:"Region"`
//	}
//
//	doc, title                  describe the value (doc is the description)
//	default                     JSON, or the text itself for a string; the member becomes optional
//	enum                        values, separated by commas
//	minimum, maximum            for numbers, exact at any size
//	minLength, maxLength        for strings, in code points
//	pattern, format             for strings; format is an annotation
//	minItems, maxItems          for slices
//	mcp-header                  mirrors the value into the header Mcp-Param-…; see Headers
//
// On a slice or an array of scalars, enum and the constraints of numbers and
// strings apply to the elements.
//
// Integer types narrower than 64 bits are bounded by what they hold, unsigned ones
// by zero. Whether a number fits into 64 bits is for Decode to say.
//
// # From a document
//
// [Compile] takes a schema of any draft, 2020-12 unless it says otherwise, keeps
// its bytes as they are, and never fetches anything. The keywords in common use
// become a program that checks the bytes of an instance in one pass, without
// decoding them and without allocating; the rest (unevaluatedProperties,
// $dynamicRef, drafts before 7 …) is left to a general library, for the schema as
// a whole. Fuzzing holds the two to the same verdicts.
//
// # Bounds
//
// Schemas and instances may come from strangers. [Limits] bounds the size and the
// depth of a schema, its regular expressions, and the time of a validation. The
// program looks at the clock as it goes. The library cannot be interrupted, so
// before it runs an upper bound of its work is computed, and what does not fit the
// time is refused; nothing is ever left running. Numbers are compared as they are
// spelled, without rounding, and 1e1000000000 costs no more than 1.
package schema
