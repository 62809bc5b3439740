package schema

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrLimit is matched by every error that reports that a schema or an instance exceeds a bound.
var ErrLimit = errors.New("schema: limit exceeded")

// errTooSlow is matched by the limitError of a validation that has taken longer
// than 100 ms. It is then unknown whether the instance is valid; treat it as
// rejected.
var errTooSlow = errors.New("schema: validation takes too long")

// limitError reports that a schema or an instance exceeds a bound. It matches
// [ErrLimit] and, for a bound of time, errTooSlow.
type limitError struct {
	// What names the quantity that is bounded, such as "subschemas" or "validation time".
	What string
	// Max is the bound, in the unit of What.
	Max string
}

// Error implements the error interface.
func (e *limitError) Error() string {
	return "schema: limit exceeded: " + e.What + " must be at most " + e.Max
}

// Is reports whether target is [ErrLimit], or errTooSlow for a bound of time.
func (e *limitError) Is(target error) bool {
	return target == ErrLimit || target == errTooSlow && e.What == limitTime
}

const limitTime = "validation time"

// dialectError reports a $schema that names no known draft. Drafts 4, 6, 7,
// 2019-09 and 2020-12 are known.
type dialectError struct {
	// Dialect is the unknown URI.
	Dialect string
}

// Error implements the error interface.
func (e *dialectError) Error() string {
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

// invalidSchemaError reports a document that is not a JSON Schema.
type invalidSchemaError struct {
	// Reason says what the schema must be, and begins with the JSON Pointer of the fault.
	Reason string
}

// Error implements the error interface.
func (e *invalidSchemaError) Error() string { return "schema: not a valid JSON Schema: " + e.Reason }

// typeError reports a Go type from which no schema can be inferred.
type typeError struct {
	// Path leads to the field in Go terms, such as "Order.Lines[].Price".
	Path string
	// Reason says why, and what to do about it.
	Reason string
}

// Error implements the error interface.
func (e *typeError) Error() string { return "schema: " + e.Path + ": " + e.Reason }

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

func tooSlow(maxTime time.Duration) *limitError {
	return &limitError{What: limitTime, Max: maxTime.String()}
}

func tooMany(what string, limit int) *limitError {
	return &limitError{What: what, Max: fmt.Sprint(limit)}
}

// report collects mistakes during a second run, after the first run has found that
// there are any. Only the second run keeps track of the position in the instance.
type report struct {
	issues []Issue
	// fixed counts the issues about an enum or a const. In a choice between
	// alternatives, they show which alternatives were not meant.
	fixed int
	path  []step

	// collects is set for a run that collects strings instead of mistakes; see Unquote.
	collects bool
	quoted   []uint32
}

// full reports whether the report contains maxIssues issues.
func (p *report) full() bool { return !p.collects && len(p.issues) >= maxIssues }

// explain runs n once more and returns the mistakes.
func (r *run) explain(n *node) error {
	r.report = &report{}
	r.check(n, 0)
	if len(r.report.issues) == 0 { // the time is up
		return invalid("", "a value that matches the schema", r.describe(0))
	}
	return &ValidationError{Issues: r.report.issues}
}

// checkMember checks the value of a property, or its name.
func (r *run) checkMember(n *node, name, value uint32) bool {
	if r.report == nil && !r.tracker.active {
		return r.check(n, value)
	}
	return r.checkChild(n, step{name: name}, value)
}

// checkElement checks an element of an array.
func (r *run) checkElement(n *node, index int, value uint32) bool {
	if r.report == nil && !r.tracker.active {
		return r.check(n, value)
	}
	return r.checkChild(n, step{index: index}, value)
}

// checkChild checks a part of a value. In the meantime, the tracker of the value pauses.
func (r *run) checkChild(n *node, s step, value uint32) bool {
	report, tracking := r.report, r.tracker.active
	r.tracker.active = false
	if report != nil {
		report.path = append(report.path, s)
	}
	ok := r.check(n, value)
	if report != nil {
		report.path = report.path[:len(report.path)-1]
	}
	r.tracker.active = tracking
	return ok
}

// here returns the JSON Pointer of the current position in the instance.
func (r *run) here() string { return r.pointer(r.report.path) }

// unitsPerIssue is the cost of an issue, whose texts and path are bounded.
const unitsPerIssue = 64

// note records an issue about the current position or, if a name is given, about
// the property of that name, and returns false.
func (r *run) note(expected, got string, name ...string) bool {
	if r.report.collects || r.report.full() || !r.spend(unitsPerIssue) {
		return false
	}
	path := r.here()
	for _, n := range name {
		path = cutPointer(appendPointer([]byte(path), truncate(n, maxPointer+1)))
	}
	issue := Issue{Path: path, Expected: cut(expected, maxExpected), Got: cut(got, maxExpected)}
	if !slices.Contains(r.report.issues, issue) {
		r.report.issues = append(r.report.issues, issue)
	}
	return false
}

// The fail methods note a mistake if there is a report, and return false.

func (r *run) failType(n *node, at uint32) bool {
	if r.report == nil {
		return false
	}
	r.quotes(n.types, at)
	return r.note(n.types.String(), r.describe(at))
}

func (r *run) failNever(at uint32) bool {
	return r.report != nil && r.note("nothing", r.describe(at))
}

func (r *run) failValue(n *node, at uint32) bool {
	if r.report == nil {
		return false
	}
	r.report.fixed++
	expected := ""
	switch {
	case n.constant != nil && !r.contains(n.constant, at):
		expected = n.constant.shown
	case len(n.enum.canonical) == 1:
		expected = n.enum.shown
	case len(n.enum.canonical) == 0:
		expected = "nothing"
	default:
		expected = "one of " + n.enum.shown
	}
	return r.note(expected, r.describe(at))
}

func (r *run) failTextLength(at uint32, relation string, limit, got int) bool {
	return r.report != nil && r.note(relation+" "+count(limit, "character"), strconv.Itoa(got)+" in "+r.describe(at))
}

func (r *run) failPattern(p *pattern, at uint32) bool {
	return r.report != nil && r.note("string matching "+quote(p.text), r.describe(at))
}

func (r *run) failBound(relation string, b *bound, at uint32) bool {
	return r.report != nil && r.note(relation+" "+truncate(b.text, maxQuoted), r.describe(at))
}

func (r *run) failMultiple(rules *numberRules, at uint32) bool {
	return r.report != nil && r.note("multiple of "+truncate(rules.multipleOfSpelling, maxQuoted), r.describe(at))
}

func (r *run) failSize(relation string, limit int, noun string, at uint32) bool {
	return r.report != nil && r.note(relation+" "+count(limit, noun), r.describe(at))
}

func (r *run) failUnique(i, j int, at uint32) bool {
	return r.report != nil && r.note("different items", "equal items "+strconv.Itoa(i)+" and "+strconv.Itoa(j)+" in "+
		r.describe(at))
}

func (r *run) failContains(relation string, limit, found int, at uint32) bool {
	return r.report != nil && r.note(relation+" "+count(limit, "item")+` matching "contains"`,
		strconv.Itoa(found)+" in "+r.describe(at))
}

// failUnknown reports a property that additionalProperties false excludes.
func (r *run) failUnknown(o *objectRules, name uint32) bool {
	if r.report == nil {
		return false
	}
	var known []string
	for _, p := range o.properties {
		if p.node == nil || len(known) > maxListed { // names that are only required come last
			break
		}
		known = append(known, quote(p.name))
	}
	text := r.excerpt(name, maxPointer+1)
	expected := "no property"
	if len(o.patterns) > 0 || o.anyName {
		expected = "another property name"
	} else if len(known) > 0 {
		expected = "one of the properties " + list(known)
	}
	return r.note(expected, "unknown property "+quote(text), text)
}

// failUnevaluated reports a property that unevaluatedProperties false excludes.
func (r *run) failUnevaluated(name uint32) bool {
	if r.report == nil {
		return false
	}
	text := r.excerpt(name, maxPointer+1)
	return r.note("no such property", "unknown property "+quote(text), text)
}

func (r *run) failMissing(o *objectRules, at uint32) bool {
	if r.report == nil {
		return false
	}
	if !r.spend(len(o.properties) / bytesPerUnit) {
		return false
	}
	present := make([]bool, len(o.properties))
	hint := 0
	for i := at + 1; i < r.Tokens[at].Next; i = r.Tokens[i+1].Next {
		if p := o.find(r.memberName(i), hint); p >= 0 {
			present[p], hint = true, p+1
		}
	}
	for i, p := range o.properties {
		if p.required && !present[i] && r.goesOn(false) {
			r.note(p.node.gist(), "nothing; it is required", p.name)
		}
	}
	return false
}

func (r *run) failDependent(because, name string, at uint32) bool {
	return r.report != nil && r.note("a value, required by the property "+quote(because), "nothing", name)
}

func (r *run) failNot(at uint32) bool {
	return r.report != nil && r.note(`a value that does not match "not"`, r.describe(at))
}

func (r *run) failOneOf(first, second, of int, at uint32) bool {
	return r.report != nil && r.note("a value that matches exactly one of "+count(of, "alternative"),
		r.describe(at)+" that matches numbers "+strconv.Itoa(first+1)+" and "+strconv.Itoa(second+1))
}

// gist returns in few words what n expects.
func (n *node) gist() string {
	for n != nil {
		switch {
		case n.constant != nil:
			return n.constant.shown
		case n.enum != nil:
			return "one of " + n.enum.shown
		case n.types != 0:
			return n.types.String()
		}
		n = n.inner()
	}
	return "a value"
}

// inner returns the node to which n passes the value on, or nil.
func (n *node) inner() *node {
	if n.extra != nil {
		return n.extra.plain
	}
	return n.ref
}

// admits returns the types that n names, and whether they include the type of
// the token.
func (r *run) admits(n *node, at uint32) (kind, bool) {
	for n.types == 0 && n.inner() != nil {
		n = n.inner()
	}
	t := &r.Tokens[at]
	ok := n.types == 0 || n.types&t.Kind != 0 || t.Kind == kindNumber && n.types&kindInteger != 0
	return n.types, ok
}

// failAlternatives explains why none of several alternatives matches. If
// possible, it reports the mistakes in the alternative that was meant: the only
// one of the right type, or the only one in which every const and enum matches.
func (r *run) failAlternatives(nodes []*node, at uint32) bool {
	if r.report == nil || r.report.full() {
		return false
	}
	outer := r.report
	here := r.here()
	var kinds kind
	var candidates, meant []*report
	local := true // every mistake concerns this value itself
	for _, n := range nodes {
		if !r.spend(1) {
			break
		}
		k, ok := r.admits(n, at)
		kinds |= k
		if !ok {
			continue
		}
		r.spend(unitsPerIssue)
		r.report = &report{path: slices.Clone(outer.path), collects: outer.collects}
		r.check(n, at)
		candidates = append(candidates, r.report)
		if r.report.fixed == 0 {
			meant = append(meant, r.report)
		}
		local = local && len(r.report.issues) == 1 && r.report.issues[0].Path == here
	}
	r.report = outer

	if len(candidates) == 1 {
		meant = candidates
	}
	if outer.collects {
		if len(candidates) == 0 {
			r.quotes(kinds, at)
		} else if len(meant) == 1 {
			outer.quoted = append(outer.quoted, meant[0].quoted...)
		}
		return false
	}
	switch {
	case len(candidates) == 0 && kinds != 0:
		return r.note(kinds.String(), r.describe(at))
	case len(meant) == 1 && len(meant[0].issues) > 0:
		for _, issue := range meant[0].issues {
			if !outer.full() {
				outer.issues = append(outer.issues, issue)
			}
		}
		outer.fixed += meant[0].fixed
		return false
	case local && len(candidates) <= maxIssues:
		expected := ""
		for i, c := range candidates {
			if i > 0 {
				expected += " or "
			}
			expected += c.issues[0].Expected
		}
		if expected != "" {
			return r.note(expected, r.describe(at))
		}
	}
	return r.note("a value that matches one of "+count(len(nodes), "alternative"), r.describe(at)+" that matches none")
}
