package schema

// checkLogic checks the applicators that look at the value at once more.
func (r *run) checkLogic(l *logic, at uint32) bool {
	ok := true
	for _, n := range l.allOf {
		if !r.check(n, at) {
			if ok = false; r.report == nil {
				return false
			}
		}
	}
	if l.anyOf != nil && !r.checkAnyOf(l.anyOf, at) {
		if ok = false; r.report == nil {
			return false
		}
	}
	if l.oneOf != nil && !r.checkOneOf(l.oneOf, at) {
		if ok = false; r.report == nil {
			return false
		}
	}
	if l.not != nil && r.silently(l.not, at) {
		if ok = r.failNot(at); r.report == nil {
			return false
		}
	}
	if l.cond != nil {
		branch := l.otherwise
		if r.silently(l.cond, at) {
			branch = l.then
		}
		if branch != nil && !r.check(branch, at) {
			ok = false
		}
	}
	return ok
}

// silently checks n without noting mistakes: whether it fits is no mistake yet.
func (r *run) silently(n *node, at uint32) bool {
	report := r.report
	r.report = nil
	ok := r.check(n, at)
	r.report = report
	return ok
}

func (r *run) checkAnyOf(nodes []*node, at uint32) bool {
	for _, n := range nodes {
		if r.silently(n, at) {
			return true
		}
		if r.err != nil {
			return false
		}
	}
	return r.failAlternatives(nodes, at)
}

func (r *run) checkOneOf(nodes []*node, at uint32) bool {
	fits := -1
	for i, n := range nodes {
		if r.silently(n, at) {
			if fits >= 0 {
				return r.failOneOf(fits, i, len(nodes), at)
			}
			fits = i
		}
		if r.err != nil {
			return false
		}
	}
	return fits >= 0 || r.failAlternatives(nodes, at)
}
