package schema

import (
	"sync"
	"time"
	"unicode/utf8"

	"github.com/parley-mcp/parley/internal/jsonscan"
)

// run is one validation. It is pooled, so that validating costs no allocation.
type run struct {
	document
	limits  Limits
	name    []byte // a member name being looked up
	scratch []byte // a canonical value, or an unescaped string

	// fuel counts down the work until the clock is looked at again; short
	// validations never look.
	fuel     int
	deadline time.Time

	err    error   // why the validation ended early
	report *report // nil while only the verdict is wanted
}

// refuelUnits is the work between two looks at the clock. A unit is about what
// checking a small value against a small schema takes, some 50 ns.
const refuelUnits = 1024

// maxPooled keeps the memory of rare large documents out of the pool.
const maxPooled = 1 << 16

var runs = sync.Pool{New: func() any { return new(run) }}

func newRun(l Limits) *run {
	r := runs.Get().(*run)
	r.limits, r.fuel, r.deadline, r.err, r.report = l, refuelUnits, time.Time{}, nil, nil
	return r
}

func (r *run) release() {
	if r.Size() > maxPooled || cap(r.scratch) > maxPooled || cap(r.name) > maxPooled {
		return
	}
	r.Reset()
	r.err, r.report = nil, nil
	runs.Put(r)
}

// spend uses up fuel and reports whether there is time left. When there is none,
// r.err says so and every check fails.
func (r *run) spend(units int) bool {
	r.fuel -= units
	return r.fuel >= 0 || r.refuel()
}

func (r *run) refuel() bool {
	if r.err != nil {
		return false
	}
	now := time.Now()
	if r.deadline.IsZero() {
		r.deadline = now.Add(r.limits.MaxTime)
	} else if now.After(r.deadline) {
		r.err = tooSlow(r.limits)
		return false
	}
	r.fuel = refuelUnits
	return true
}

// check reports whether the value at fits n. While r.report is set it goes on
// after the first mistake and notes each.
func (r *run) check(n *node, at uint32) bool {
	if n.always {
		return true
	}
	if !r.spend(1) {
		return false
	}
	if n.never {
		return r.failNever(at)
	}
	t := &r.Tokens[at]
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
	if !ok && r.report == nil {
		return false
	}
	if n.ref != nil && !r.check(n.ref, at) {
		ok = false
	}
	if n.logic != nil && (ok || r.report != nil) && !r.checkLogic(n.logic, at) {
		ok = false
	}
	return ok
}

func (r *run) isInteger(t *token) bool {
	if t.Plain {
		return true
	}
	d := parseDecimal(r.Raw[t.Start:t.End])
	return d.isInteger()
}

// contains reports whether the value at is one of the set.
func (r *run) contains(set *valueSet, at uint32) bool {
	t := &r.Tokens[at]
	if !r.spend(int(t.End-t.Start) / 64) {
		return false
	}
	r.scratch = r.appendCanonical(r.scratch[:0], at)
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
	// A code point has one to four bytes: mostly the length in bytes decides.
	if len(s) < rules.minimum || len(s)/utf8.UTFMax < rules.minimum && utf8.RuneCount(s) < rules.minimum {
		ok = r.failTextLength(at, "at least", rules.minimum)
	}
	if rules.maximum != unbounded && len(s) > rules.maximum && utf8.RuneCount(s) > rules.maximum {
		ok = r.failTextLength(at, "at most", rules.maximum)
	}
	if rules.pattern != nil && (ok || r.report != nil) && !r.match(rules.pattern, s) {
		ok = r.failPattern(rules.pattern, at)
	}
	if rules.format != nil && (ok || r.report != nil) && rules.format.check(string(s)) != nil {
		ok = r.failFormat(rules.format, at)
	}
	return ok
}

func (r *run) checkNumber(rules *numberRules, at uint32) bool {
	literal := r.bytes(at)
	if !r.spend(len(literal) / 64) {
		return false
	}
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
		if d := parseDecimal(literal); !rules.multipleOf.divides(&d) {
			ok = r.failMultiple(rules, at)
		}
	}
	return ok
}

func (r *run) checkObject(o *objectRules, at uint32) bool {
	t := r.Tokens[at]
	ok := true
	if int(t.Count) < o.minimum {
		ok = r.failSize("at least", o.minimum, "member", at)
	}
	if o.maximum != unbounded && int(t.Count) > o.maximum {
		ok = r.failSize("at most", o.maximum, "member", at)
	}
	missing, hint := o.required, 0
	for i := at + 1; i < t.Next && (ok || r.report != nil); i = r.Tokens[i+1].Next {
		value := i + 1
		known := false
		if p := o.find(r.memberName(i), hint); p >= 0 {
			hint = p + 1
			if o.properties[p].required {
				missing--
			}
			if n := o.properties[p].node; n != nil {
				known = true
				ok = r.checkPart(n, i, value) && ok
			}
		}
		for p := range o.patterns {
			if r.match(o.patterns[p].pattern, r.memberName(i)) {
				known = true
				ok = r.checkPart(o.patterns[p].node, i, value) && ok
			}
		}
		if !known && o.additional != nil {
			if o.additional.never {
				ok = r.failUnknown(o, i)
			} else {
				ok = r.checkPart(o.additional, i, value) && ok
			}
		}
		if o.names != nil {
			ok = r.checkPart(o.names, i, i) && ok
		}
	}
	if missing > 0 && (ok || r.report != nil) {
		ok = r.failMissing(o, at)
	}
	for i := range o.dependents {
		if ok || r.report != nil {
			ok = r.checkDependent(&o.dependents[i], at) && ok
		}
	}
	return ok
}

// memberName returns the text of a member's name, valid until the next call.
func (r *run) memberName(at uint32) []byte {
	t := &r.Tokens[at]
	s := r.Raw[t.Start:t.End]
	if t.Plain {
		return s
	}
	r.name = jsonscan.AppendUnescaped(r.name[:0], s)
	return r.name
}

func (r *run) checkDependent(d *dependent, at uint32) bool {
	if !r.spend(int(r.Tokens[at].Count) / 8) {
		return false
	}
	if _, present := r.member(at, d.name); !present {
		return true
	}
	ok := d.node == nil || r.check(d.node, at)
	for _, name := range d.requires {
		if !r.spend(int(r.Tokens[at].Count) / 8) {
			return false
		}
		if _, present := r.member(at, name); !present {
			ok = r.failDependent(d.name, name, at)
			if r.report == nil {
				return false
			}
		}
	}
	return ok
}

func (r *run) checkArray(a *arrayRules, at uint32) bool {
	t := r.Tokens[at]
	ok := true
	if int(t.Count) < a.minimum {
		ok = r.failSize("at least", a.minimum, "item", at)
	}
	if a.maximum != unbounded && int(t.Count) > a.maximum {
		ok = r.failSize("at most", a.maximum, "item", at)
	}
	if a.unique && (ok || r.report != nil) {
		ok = r.checkUnique(at) && ok
	}
	if len(a.prefix) > 0 || a.rest != nil {
		index := 0
		for i := at + 1; i < t.Next && (ok || r.report != nil); i = r.Tokens[i].Next {
			n := a.rest
			if index < len(a.prefix) {
				n = a.prefix[index]
			}
			if n == nil {
				break
			}
			ok = r.checkElement(n, index, i) && ok
			index++
		}
	}
	if a.contains != nil && (ok || r.report != nil) {
		ok = r.checkContains(a, at) && ok
	}
	return ok
}

func (r *run) checkContains(a *arrayRules, at uint32) bool {
	found := 0
	report := r.report
	r.report = nil // elements that do not fit are no mistakes
	for i := at + 1; i < r.Tokens[at].Next; i = r.Tokens[i].Next {
		if r.check(a.contains, i) {
			found++
		}
		if r.err != nil || a.maxContained == unbounded && found >= a.minContained {
			break
		}
	}
	r.report = report
	switch {
	case found < a.minContained:
		return r.failContains("at least", a.minContained, found, at)
	case a.maxContained != unbounded && found > a.maxContained:
		return r.failContains("at most", a.maxContained, found, at)
	}
	return true
}

// checkUnique compares the canonical forms of the elements with each other.
func (r *run) checkUnique(at uint32) bool {
	t := r.Tokens[at]
	if t.Count < 2 {
		return true
	}
	if !r.spend(int(t.End-t.Start)/16 + int(t.Count)) {
		return false
	}
	const few = 8
	var ends [few]int
	var seen map[string]int
	if t.Count > few {
		seen = make(map[string]int, t.Count)
	}
	r.scratch = r.scratch[:0]
	index := 0
	for i := at + 1; i < t.Next; i = r.Tokens[i].Next {
		start := len(r.scratch)
		r.scratch = r.appendCanonical(r.scratch, i)
		form := r.scratch[start:]
		if seen != nil {
			if j, ok := seen[string(form)]; ok {
				return r.failUnique(j, index, at)
			}
			seen[string(form)] = index
			r.scratch = r.scratch[:0]
		} else {
			from := 0
			for j, end := range ends[:index] {
				if string(r.scratch[from:end]) == string(form) {
					return r.failUnique(j, index, at)
				}
				from = end
			}
			ends[index] = len(r.scratch)
		}
		index++
	}
	return true
}
