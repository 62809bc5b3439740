package schema

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrLimit is matched by every [LimitError].
var ErrLimit = errors.New("schema: limit exceeded")

// ErrTooSlow is matched by the [LimitError] of a validation that has taken longer
// than [Limits].MaxTime. The instance is then neither known to be valid nor to be
// invalid; treat it as rejected.
var ErrTooSlow = errors.New("schema: validation takes too long")

// LimitError reports that a schema or an instance exceeds a bound. It matches
// [ErrLimit] and, when the bound is one of time, [ErrTooSlow].
type LimitError struct {
	// What names the quantity that is bounded, such as "subschemas" or "validation time".
	What string
	// Max is the bound, in the unit of What.
	Max string
}

// Error implements the error interface.
func (e *LimitError) Error() string {
	return "schema: limit exceeded: " + e.What + " must be at most " + e.Max
}

// Is reports whether target is [ErrLimit], or [ErrTooSlow] for a bound of time.
func (e *LimitError) Is(target error) bool {
	return target == ErrLimit || target == ErrTooSlow && e.What == limitTime
}

const limitTime = "validation time"

// DialectError reports a $schema that names no known draft. Drafts 4, 6, 7,
// 2019-09 and 2020-12 are known.
type DialectError struct {
	// Dialect is the unknown URI.
	Dialect string
}

// Error implements the error interface.
func (e *DialectError) Error() string {
	return "schema: unknown dialect " + quote(e.Dialect) +
		"; use https://json-schema.org/draft/2020-12/schema or leave $schema out"
}

// RefError reports a reference that leads outside of the schema document, nowhere,
// to a value that is not a schema, or back to itself. External references are never
// fetched.
type RefError struct {
	// Ref is the reference as the schema spells it.
	Ref string
	// Reason says why the reference is rejected.
	Reason string
}

// Error implements the error interface.
func (e *RefError) Error() string {
	return "schema: reference " + quote(e.Ref) + ": " + e.Reason
}

// InvalidSchemaError reports a document that is not a JSON Schema.
type InvalidSchemaError struct {
	// Reason says what the schema must be, and begins with the JSON Pointer of the fault.
	Reason string
}

// Error implements the error interface.
func (e *InvalidSchemaError) Error() string { return "schema: not a valid JSON Schema: " + e.Reason }

// TypeError reports a Go type from which no schema can be inferred.
type TypeError struct {
	// Path leads to the field in Go terms, such as "Order.Lines[].Price".
	Path string
	// Reason says why, and what to do about it.
	Reason string
}

// Error implements the error interface.
func (e *TypeError) Error() string { return "schema: " + e.Path + ": " + e.Reason }

// maxIssues bounds the issues of one error. A model corrects a few mistakes at a time.
const maxIssues = 8

// ValidationError reports where and how an instance does not match its schema. Its
// text is for the sender of the instance, a language model or a person.
type ValidationError struct {
	// Issues contains one to eight mistakes, in the order of the instance.
	Issues []Issue
}

// Issue is one mistake in an instance.
type Issue struct {
	// Path is the JSON Pointer (RFC 6901) of the offending or missing value;
	// empty for the whole instance, and cut with "…" at about 1 KiB.
	Path string
	// Expected describes the values that the schema accepts at Path.
	Expected string
	// Got describes the value at Path. Quoted values are cut at 64 bytes and escaped.
	Got string
}

// Error returns one line that names the instance "value"; see [ValidationError.Describe].
func (e *ValidationError) Error() string { return e.Describe("value") }

// Describe returns one line in which the instance is called root, as in
//
//	arguments/age: expected integer, got string "abc"; arguments/name: expected string, got nothing
//
// It contains no control characters.
func (e *ValidationError) Describe(root string) string {
	var b strings.Builder
	for i, issue := range e.Issues {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(root)
		b.WriteString(escapePath(issue.Path))
		b.WriteString(": expected ")
		b.WriteString(issue.Expected)
		b.WriteString(", got ")
		b.WriteString(issue.Got)
	}
	return b.String()
}

// invalid returns a ValidationError with one issue.
func invalid(path, expected, got string) *ValidationError {
	return &ValidationError{Issues: []Issue{{Path: path, Expected: expected, Got: got}}}
}

func tooSlow(maxTime time.Duration) *LimitError {
	return &LimitError{What: limitTime, Max: maxTime.String()}
}

func tooMany(what string, limit int) *LimitError {
	return &LimitError{What: what, Max: fmt.Sprint(limit)}
}
