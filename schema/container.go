package schema

import "github.com/parley-mcp/parley/internal/jsonscan"

func (r *run) checkObject(o *objectRules, at uint32) bool {
	t := r.Tokens[at]
	ok := true
	if int(t.Count) < o.minimum {
		ok = r.failSize("at least", o.minimum, "member", at)
	}
	if o.maximum != unbounded && int(t.Count) > o.maximum {
		ok = r.failSize("at most", o.maximum, "member", at)
	}
	missing, hint, index := o.required, 0, 0
	for i := at + 1; i < t.Next && r.goesOn(ok); i = r.Tokens[i+1].Next {
		value := i + 1
		known := false
		if p := o.find(r.memberName(i), hint); p >= 0 {
			hint = p + 1
			if o.properties[p].required {
				missing--
			}
			if n := o.properties[p].node; n != nil {
				known = true
				ok = r.checkMember(n, i, value) && ok
			}
		}
		for p := range o.patterns {
			if !r.goesOn(ok) {
				break
			}
			if pattern := &o.patterns[p]; pattern.pattern == nil {
				known = true
			} else if r.match(pattern.pattern, r.memberName(i)) {
				known = true
				ok = r.checkMember(pattern.node, i, value) && ok
			}
		}
		if !known && o.additional != nil {
			known = true
			if o.additional.never {
				ok = r.failUnknown(o, i)
			} else {
				ok = r.checkMember(o.additional, i, value) && ok
			}
		}
		if known && r.tracker.active {
			r.tracker.mark(index)
		}
		if o.names != nil {
			ok = r.checkMember(o.names, i, i) && ok
		}
		index++
	}
	if missing > 0 && r.goesOn(ok) {
		ok = r.failMissing(o, at)
	}
	for i := range o.dependents {
		if r.goesOn(ok) {
			ok = r.checkDependent(&o.dependents[i], at) && ok
		}
	}
	return ok
}

// memberName returns the text of a member's name, valid until the next call. It
// charges for escapes, because a name is read once for each pattern.
func (r *run) memberName(at uint32) []byte {
	t := &r.Tokens[at]
	s := r.Raw[t.Start:t.End]
	if t.Plain {
		return s
	}
	r.spend(len(s) / bytesPerUnit)
	r.name = jsonscan.AppendUnescaped(r.name[:0], s)
	return r.name
}

func (r *run) checkDependent(d *dependent, at uint32) bool {
	if _, present := r.search(at, d.name); !present {
		return true
	}
	ok := d.node == nil || r.check(d.node, at)
	for _, name := range d.requires {
		if !r.goesOn(ok) {
			return false
		}
		if _, present := r.search(at, name); !present {
			ok = r.failDependent(d.name, name, at)
		}
	}
	return ok
}

// search is member, and charges for its work. When the time is up it finds nothing.
func (r *run) search(at uint32, name string) (value uint32, ok bool) {
	t := &r.Tokens[at]
	if !r.spend(1 + int(t.End-t.Start)/bytesPerUnit) {
		return 0, false
	}
	return r.member(at, name)
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
	if a.unique && r.goesOn(ok) {
		ok = r.checkUnique(at) && ok
	}
	if len(a.prefix) > 0 || a.rest != nil {
		index := 0
		for i := at + 1; i < t.Next && r.goesOn(ok); i = r.Tokens[i].Next {
			n := a.rest
			if index < len(a.prefix) {
				n = a.prefix[index]
			}
			if n == nil {
				break
			}
			ok = r.checkElement(n, index, i) && ok
			if r.tracker.active {
				r.tracker.mark(index)
			}
			index++
		}
	}
	if a.contains != nil && r.goesOn(ok) {
		ok = r.checkContains(a, at) && ok
	}
	return ok
}

// checkContains counts the elements that match. An element whose match is not
// certain counts towards the minimum, but not towards the maximum.
func (r *run) checkContains(a *arrayRules, at uint32) bool {
	found, certain, index := 0, 0, 0
	report, doubt, tracking := r.report, r.doubt, r.tracker.active
	all := tracking && a.containsEvaluates || a.maxContained != unbounded
	r.report = nil // elements that do not match are no mistakes
	for i := at + 1; i < r.Tokens[at].Next; i = r.Tokens[i].Next {
		r.doubt, r.tracker.active = false, false
		ok := r.check(a.contains, i)
		r.tracker.active = tracking
		if ok {
			if found++; !r.doubt {
				certain++
			}
			doubt = doubt || r.doubt
			if tracking && a.containsEvaluates {
				r.tracker.mark(index)
			}
		}
		if r.err != nil || !all && found >= a.minContained {
			break
		}
		index++
	}
	r.report, r.doubt = report, doubt
	switch {
	case found < a.minContained:
		return r.failContains("at least", a.minContained, found, at)
	case a.maxContained != unbounded && certain > a.maxContained:
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
		r.scratch = r.appendCanonical(r.scratch, i, r.spend)
		form := r.scratch[start:]
		if seen != nil {
			if !r.spend(1) {
				return false
			}
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
