package schema

import (
	"sync"
	"time"
	"unicode/utf8"

	"github.com/parley-mcp/parley/internal/jsonscan"
)

// run is one validation. It is pooled, so that validating allocates nothing.
type run struct {
	document
	maxTime time.Duration
	now     func() time.Time
	name    []byte // a key that is being looked up
	scratch []byte // holds a canonical value, or an unescaped string
	recent  recent

	// fuel is the work that may be done before the next look at the clock. Short
	// validations never look.
	fuel     int
	deadline time.Time

	err    error   // why the validation ended early
	report *report // nil while only the verdict matters

	tracker tracker
	scope   []*resource // the dynamic scope, in programs with dynamic references
	// doubt means that a keyword was encountered that cannot be checked, so
	// that success is not certain.
	doubt bool
}

// refuelUnits is the work between two looks at the clock. A unit is about what
// checking a small value against a small schema takes, some 50 ns.
const refuelUnits = 1024

// bytesPerUnit is how many bytes of a value a check may read for one unit. The
// keywords of one subschema read a value at most a few times, whatever its kind, so
// the length bounds the work of all of them. Work that grows with something else as
// well (expressions, required names, sorting, issues) is charged where it is done.
const bytesPerUnit = 32

// maxPooled keeps the memory of rare large documents out of the pool.
const maxPooled = 1 << 16

var runs = sync.Pool{New: func() any { return new(run) }}

// newRun returns a run for a validation that may take maxTime.
func newRun(maxTime time.Duration) *run {
	r := runs.Get().(*run)
	r.maxTime, r.now, r.fuel = maxTime, time.Now, refuelUnits
	return r
}

// release puts r back into the pool.
func (r *run) release() {
	if r.Size() > maxPooled || cap(r.scratch) > maxPooled || cap(r.name) > maxPooled || r.tracker.size() > maxPooled {
		return
	}
	r.Reset()
	r.err, r.doubt = nil, false
	if r.report != nil || r.scope != nil || !r.deadline.IsZero() {
		r.report, r.scope, r.deadline = nil, nil, time.Time{}
	}
	runs.Put(r)
}

// validate checks raw against n.
func (r *run) validate(n *node, raw []byte) error {
	if err := r.scan(raw); err != nil {
		return err
	}
	ok := r.check(n, 0)
	switch {
	case r.err != nil:
		return r.err
	case ok:
		return nil
	}
	return r.explain(n)
}

// spend uses up fuel and reports whether there is time left. If there is none,
// r.err is set and every check fails.
func (r *run) spend(units int) bool {
	r.fuel -= units
	return r.fuel >= 0 || r.refuel()
}

func (r *run) refuel() bool {
	if r.err != nil {
		return false
	}
	now := r.now()
	if r.deadline.IsZero() {
		r.deadline = now.Add(r.maxTime)
	} else if now.After(r.deadline) {
		r.err = tooSlow(r.maxTime)
		return false
	}
	r.fuel = refuelUnits
	return true
}

// check reports whether the value at a token matches n. While r.report is set, it
// continues after the first mistake and records each.
func (r *run) check(n *node, at uint32) bool {
	if n.always {
		return true
	}
	t := &r.Tokens[at]
	if !r.spend(1 + int(t.End-t.Start)/bytesPerUnit) {
		return false
	}
	if n.never {
		return r.failNever(at)
	}
	if n.extra != nil {
		return r.checkExtra(n.extra, at)
	}
	if n.types != 0 && n.types&t.Kind == 0 && !(t.Kind == kindNumber && n.types&kindInteger != 0 && r.isInteger(t)) {
		return r.failType(n, at)
	}
	if n.enum != nil && !r.contains(n.enum, at) || n.constant != nil && !r.contains(n.constant, at) {
		return r.failValue(n, at)
	}
	ok := true
	switch t.Kind {
	case kindString:
		ok = n.text == nil || r.checkText(n.text, at)
	case kindNumber:
		ok = n.number == nil || r.checkNumber(n.number, at)
	case kindObject:
		ok = n.object == nil || r.checkObject(n.object, at)
	case kindArray:
		ok = n.array == nil || r.checkArray(n.array, at)
	}
	if r.goesOn(ok) && n.ref != nil && !r.check(n.ref, at) {
		ok = false
	}
	if r.goesOn(ok) && n.logic != nil && !r.checkLogic(n.logic, at) {
		ok = false
	}
	return ok
}

// goesOn reports whether to continue a check after a result: after a success
// until the time is up, and after a mistake if there is a report that is not
// full.
func (r *run) goesOn(ok bool) bool {
	return r.err == nil && (ok || r.report != nil && !r.report.full())
}

func (r *run) isInteger(t *token) bool {
	if t.Plain {
		return true
	}
	d := parseDecimal(r.Raw[t.Start:t.End])
	return d.isInteger()
}

// contains reports whether the value at a token is in the set.
func (r *run) contains(set *valueSet, at uint32) bool {
	r.scratch = r.appendCanonical(r.scratch[:0], at, r.spend)
	_, ok := set.canonical[string(r.scratch)]
	return ok
}

func (r *run) checkText(rules *textRules, at uint32) bool {
	t := &r.Tokens[at]
	s := r.Raw[t.Start:t.End]
	if !t.Plain {
		r.scratch = jsonscan.AppendUnescaped(r.scratch[:0], s)
		s = r.scratch
	}
	ok := true
	// A code point takes one to four bytes, so the length in bytes mostly decides.
	if len(s) < rules.minimum || len(s)/utf8.UTFMax < rules.minimum && utf8.RuneCount(s) < rules.minimum {
		ok = r.failTextLength(at, "at least", rules.minimum, utf8.RuneCount(s))
	}
	if rules.maximum != unbounded && len(s) > rules.maximum && utf8.RuneCount(s) > rules.maximum {
		ok = r.failTextLength(at, "at most", rules.maximum, utf8.RuneCount(s))
	}
	if rules.pattern != nil && r.goesOn(ok) && !r.match(rules.pattern, s) {
		ok = r.failPattern(rules.pattern, at)
	}
	return ok
}

func (r *run) checkNumber(rules *numberRules, at uint32) bool {
	literal := r.Bytes(at)
	ok := true
	if b := rules.minimum; b != nil && b.cmp(literal) < 0 {
		ok = r.failBound("at least", b, at)
	}
	if b := rules.maximum; b != nil && b.cmp(literal) > 0 {
		ok = r.failBound("at most", b, at)
	}
	if b := rules.exclusive.minimum; b != nil && b.cmp(literal) <= 0 {
		ok = r.failBound("more than", b, at)
	}
	if b := rules.exclusive.maximum; b != nil && b.cmp(literal) >= 0 {
		ok = r.failBound("less than", b, at)
	}
	if rules.multipleOf != nil {
		if d := parseDecimal(literal); !rules.multipleOf.divides(&d, r.spend) {
			ok = r.failMultiple(rules, at)
		}
	}
	return ok
}

// checkLogic checks the applicators that examine the value again.
func (r *run) checkLogic(l *logic, at uint32) bool {
	ok := true
	for _, n := range l.allOf {
		if !r.goesOn(ok) {
			return false
		}
		ok = r.check(n, at) && ok
	}
	if l.anyOf != nil && r.goesOn(ok) {
		ok = r.checkAnyOf(l.anyOf, at) && ok
	}
	if l.oneOf != nil && r.goesOn(ok) {
		ok = r.checkOneOf(l.oneOf, at) && ok
	}
	if l.not != nil && r.goesOn(ok) && !r.checkNot(l.not, at) {
		ok = r.failNot(at)
	}
	if l.cond != nil && r.goesOn(ok) {
		ok = r.checkIf(l, at) && ok
	}
	return ok
}

// try reports whether the value matches n, and whether that is certain. It
// records no mistakes, because a value that does not match is not yet a mistake.
// Evaluated properties and elements count only if the value matches.
func (r *run) try(n *node, at uint32) (ok, certain bool) {
	report, doubt, marks := r.report, r.doubt, len(r.tracker.log)
	r.report, r.doubt = nil, false
	ok = r.check(n, at)
	certain = !r.doubt
	r.report, r.doubt = report, doubt || ok && r.doubt
	if !ok && r.tracker.active {
		r.tracker.undo(marks)
	}
	return ok, certain
}

func (r *run) checkAnyOf(nodes []*node, at uint32) bool {
	matched, doubt := false, r.doubt
	for _, n := range nodes {
		ok, certain := r.try(n, at)
		matched = matched || ok
		if ok && certain && !r.tracker.active {
			r.doubt = doubt
			return true
		} // otherwise, the other alternatives may evaluate more properties or elements
		if r.err != nil {
			return false
		}
	}
	return matched || r.failAlternatives(nodes, at)
}

func (r *run) checkOneOf(nodes []*node, at uint32) bool {
	matched, first := false, -1 // first is the first certain match
	for i, n := range nodes {
		if ok, certain := r.try(n, at); ok {
			matched = true
			switch {
			case !certain:
			case first >= 0:
				return r.failOneOf(first, i, len(nodes), at)
			default:
				first = i
			}
		}
		if r.err != nil {
			return false
		}
	}
	return matched || r.failAlternatives(nodes, at)
}

func (r *run) checkNot(n *node, at uint32) bool {
	tracking := r.tracker.active
	r.tracker.active = false
	ok, certain := r.try(n, at)
	r.tracker.active = tracking
	return !ok || !certain
}

func (r *run) checkIf(l *logic, at uint32) bool {
	if l.then == nil && l.otherwise == nil && !r.tracker.active {
		return true
	}
	switch ok, certain := r.try(l.cond, at); {
	case ok && !certain:
		return r.checkEither(l.then, l.otherwise, at)
	case ok:
		return l.then == nil || r.check(l.then, at)
	default:
		return l.otherwise == nil || r.check(l.otherwise, at)
	}
}

// checkEither checks the branches of an "if" whose condition is not certain. The
// value must match one of them, and each branch that it matches counts as having
// evaluated it.
func (r *run) checkEither(then, otherwise *node, at uint32) bool {
	matched := then == nil || otherwise == nil // an absent branch accepts everything
	for _, n := range [...]*node{then, otherwise} {
		if n != nil {
			ok, _ := r.try(n, at)
			matched = matched || ok
		}
	}
	return matched || r.check(otherwise, at) // records the mistakes
}
