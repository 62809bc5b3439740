package schema

import (
	"slices"
	"strconv"
)

// report gathers mistakes on a second run, after the first has said that there
// are some. The way down into the instance is tracked on that run only.
type report struct {
	issues []Issue
	// fixed counts the issues about an enum or a const. In a choice between
	// alternatives they tell which one was not meant.
	fixed int
	path  []step
}

// explain runs n once more and returns what is wrong.
func (r *run) explain(n *node) error {
	r.report = &report{}
	r.check(n, 0)
	if len(r.report.issues) == 0 { // out of time, or of sight
		return invalid("", "a value that fits the schema", r.describe(0))
	}
	return &ValidationError{Issues: r.report.issues}
}

// checkPart checks the value of a member, or its name.
func (r *run) checkPart(n *node, name, value uint32) bool {
	if r.report == nil {
		return r.check(n, value)
	}
	return r.checkBelow(n, step{name: name}, value)
}

// checkElement checks an element of an array.
func (r *run) checkElement(n *node, index int, value uint32) bool {
	if r.report == nil {
		return r.check(n, value)
	}
	return r.checkBelow(n, step{index: index}, value)
}

func (r *run) checkBelow(n *node, s step, value uint32) bool {
	report := r.report
	report.path = append(report.path, s)
	ok := r.check(n, value)
	report.path = report.path[:len(report.path)-1]
	return ok
}

// here is the JSON Pointer of where the report is.
func (r *run) here() string { return r.pointer(r.report.path) }

// note records an issue about the member below the current place that is called
// by the name, or about the place itself without one, and returns false.
func (r *run) note(expected, got string, name ...string) bool {
	if r.err != nil || len(r.report.issues) >= maxIssues {
		return false
	}
	path := r.here()
	for _, n := range name {
		path = cutPointer(appendPointer([]byte(path), truncate(n, maxPointer+1)))
	}
	issue := Issue{Path: path, Expected: expected, Got: got}
	if !slices.Contains(r.report.issues, issue) {
		r.report.issues = append(r.report.issues, issue)
	}
	return false
}

func (r *run) failType(n *node, at uint32) bool {
	if r.report == nil {
		return false
	}
	return r.note(n.types.String(), r.describe(at))
}

func (r *run) failNever(at uint32) bool {
	if r.report == nil {
		return false
	}
	return r.note("nothing here", r.describe(at))
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
		expected = "nothing here"
	default:
		expected = "one of " + n.enum.shown
	}
	return r.note(expected, r.describe(at))
}

func (r *run) failTextLength(at uint32, relation string, limit int) bool {
	if r.report == nil {
		return false
	}
	got := len([]rune(r.text(at)))
	return r.note(relation+" "+count(limit, "character"), strconv.Itoa(got)+" in "+r.describe(at))
}

func (r *run) failPattern(p *pattern, at uint32) bool {
	if r.report == nil {
		return false
	}
	return r.note("string matching "+quote(p.expression.String()), r.describe(at))
}

func (r *run) failFormat(f *format, at uint32) bool {
	if r.report == nil {
		return false
	}
	return r.note("string of format "+quote(f.name), r.describe(at))
}

func (r *run) failBound(relation string, b *bound, at uint32) bool {
	if r.report == nil {
		return false
	}
	return r.note(relation+" "+truncate(b.text, maxQuoted), r.describe(at))
}

func (r *run) failMultiple(rules *numberRules, at uint32) bool {
	if r.report == nil {
		return false
	}
	return r.note("multiple of "+truncate(rules.multipleOfSpelling, maxQuoted), r.describe(at))
}

func (r *run) failSize(relation string, limit int, noun string, at uint32) bool {
	if r.report == nil {
		return false
	}
	return r.note(relation+" "+count(limit, noun), r.describe(at))
}

func (r *run) failUnique(i, j int, at uint32) bool {
	if r.report == nil {
		return false
	}
	return r.note("no item twice", "items "+strconv.Itoa(i)+" and "+strconv.Itoa(j)+" alike in "+r.describe(at))
}

func (r *run) failContains(relation string, limit, found int, at uint32) bool {
	if r.report == nil {
		return false
	}
	return r.note(relation+" "+count(limit, "item")+" of a certain form", strconv.Itoa(found)+" in "+r.describe(at))
}

// failUnknown is about a member that additionalProperties false excludes.
func (r *run) failUnknown(o *objectRules, name uint32) bool {
	if r.report == nil {
		return false
	}
	var known []string
	for _, p := range o.properties {
		if p.node != nil && len(known) <= maxListed {
			known = append(known, quote(p.name))
		}
	}
	text := r.text(name)
	expected := "no member"
	if len(o.patterns) > 0 {
		expected = "another member name"
	} else if len(known) > 0 {
		expected = "one of the members " + list(known)
	}
	return r.note(expected, "unknown member "+quote(text), text)
}

func (r *run) failMissing(o *objectRules, at uint32) bool {
	if r.report == nil {
		return false
	}
	for _, p := range o.properties {
		if !p.required {
			continue
		}
		if _, present := r.member(at, p.name); !present {
			r.note(p.node.gist(), "nothing; it is required", p.name)
		}
	}
	return false
}

func (r *run) failDependent(because, name string, at uint32) bool {
	if r.report == nil {
		return false
	}
	return r.note("a value since there is a "+quote(because), "nothing", name)
}

func (r *run) failNot(at uint32) bool {
	if r.report == nil {
		return false
	}
	return r.note("something that the schema does not exclude", r.describe(at))
}

func (r *run) failOneOf(first, second, of int, at uint32) bool {
	if r.report == nil {
		return false
	}
	return r.note("exactly one of "+count(of, "alternative")+" to fit",
		r.describe(at)+" that fits numbers "+strconv.Itoa(first+1)+" and "+strconv.Itoa(second+1))
}

// gist says in a word what n asks for.
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
		n = n.ref
	}
	return "a value"
}

// admits returns the kinds that n allows on the face of it, and whether that of
// the token is one of them.
func (r *run) admits(n *node, at uint32) (kind, bool) {
	for n.types == 0 && n.ref != nil {
		n = n.ref
	}
	t := &r.Tokens[at]
	ok := n.types == 0 || n.types&t.Kind != 0 || t.Kind == kindNumber && n.types&kindInteger != 0
	return n.types, ok
}

// failAlternatives explains why none of several alternatives fits, if possible
// by the mistakes in the one that was meant: the only one of the right kind, or
// the only one whose fixed values (a discriminator, say) all fit.
func (r *run) failAlternatives(nodes []*node, at uint32) bool {
	if r.report == nil || len(r.report.issues) >= maxIssues {
		return false
	}
	outer := r.report
	here := r.here()
	var kinds kind
	var candidates, meant []*report
	local := true // every mistake is about this very value
	for _, n := range nodes {
		k, fits := r.admits(n, at)
		kinds |= k
		if !fits {
			continue
		}
		r.report = &report{path: slices.Clone(outer.path)}
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
	switch {
	case len(candidates) == 0 && kinds != 0:
		return r.note(kinds.String(), r.describe(at))
	case len(meant) == 1 && len(meant[0].issues) > 0:
		for _, issue := range meant[0].issues {
			if len(outer.issues) < maxIssues {
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
	return r.note("one of "+count(len(nodes), "alternative")+" to fit", r.describe(at)+" that fits none")
}
