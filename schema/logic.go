package schema

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

// try reports whether the value matches n, and whether that is certain. It notes
// no mistakes, because a value that does not match is no mistake yet. Evaluated
// members and elements count only if the value matches.
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
		} // else the other alternatives may evaluate more members or elements
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
// value must match one of them, and counts as evaluated by each that it matches.
func (r *run) checkEither(then, otherwise *node, at uint32) bool {
	matched := then == nil || otherwise == nil // an absent branch accepts everything
	for _, n := range [...]*node{then, otherwise} {
		if n != nil {
			ok, _ := r.try(n, at)
			matched = matched || ok
		}
	}
	return matched || r.check(otherwise, at) // notes the mistakes
}
