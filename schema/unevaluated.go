package schema

// checkExtra checks a node with dynamic references, unevaluatedProperties or
// unevaluatedItems, or keywords that cannot be checked.
func (r *run) checkExtra(x *extra, at uint32) bool {
	if x.unchecked {
		r.doubt = true
	}
	if x.resource != nil && (len(r.scope) == 0 || r.scope[len(r.scope)-1] != x.resource) {
		r.scope = append(r.scope, x.resource)
		defer func() { r.scope = r.scope[:len(r.scope)-1] }()
	}
	rest := x.unevaluatedItems
	t := &r.Tokens[at]
	if t.Kind == kindObject {
		rest = x.unevaluatedProperties
	}
	if rest == nil || t.Kind&(kindObject|kindArray) == 0 {
		return r.checkInPlace(x, at)
	}
	count := int(t.Count)
	outer := r.tracker.begin(count)
	ok := r.checkInPlace(x, at)
	if r.goesOn(ok) {
		ok = r.checkUnevaluated(rest, at) && ok
	}
	r.tracker.end(outer)
	if ok && r.tracker.active { // nothing is left unevaluated
		for i := range count {
			r.tracker.mark(i)
		}
	}
	return ok
}

// checkInPlace checks the parts of x that examine the value itself.
func (r *run) checkInPlace(x *extra, at uint32) bool {
	ok := r.check(x.plain, at)
	for i := range x.dynamic {
		if r.goesOn(ok) {
			ok = r.check(r.target(&x.dynamic[i]), at) && ok
		}
	}
	return ok
}

// target returns the node to which a dynamic reference leads: that of the outermost
// resource in the dynamic scope that has the anchor.
func (r *run) target(d *dynamicRef) *node {
	r.spend(len(r.scope))
	for _, resource := range r.scope {
		if n := resource.nodes[d.name]; n != nil {
			return n
		}
	}
	return d.fallback
}

// checkUnevaluated checks the members or elements of the value at a token that no
// other keyword has evaluated.
func (r *run) checkUnevaluated(n *node, at uint32) bool {
	t := r.Tokens[at]
	ok := true
	index := 0
	if t.Kind == kindObject {
		for i := at + 1; i < t.Next && r.goesOn(ok); i = r.Tokens[i+1].Next {
			if !r.tracker.has(index) {
				if n.never {
					ok = r.failUnevaluated(i)
				} else {
					ok = r.checkMember(n, i, i+1) && ok
				}
			}
			index++
		}
		return ok
	}
	for i := at + 1; i < t.Next && r.goesOn(ok); i = r.Tokens[i].Next {
		if !r.tracker.has(index) {
			ok = r.checkElement(n, index, i) && ok
		}
		index++
	}
	return ok
}

// tracker records which members or elements of one value have been evaluated. It
// is active while the keywords of that value are checked, and not while those of
// its members and elements are. Trackers of values inside each other share memory.
type tracker struct {
	active bool
	base   int      // of the value's bits, in words
	start  int      // of the value's entries in log
	bits   []uint64 // one for each member or element
	log    []uint32 // the bits that are set, in the order of setting them
}

// begin starts to track a value with a number of members or elements. It returns
// the state to which end returns.
func (t *tracker) begin(count int) (outer tracker) {
	outer = *t
	t.active, t.base, t.start = true, len(t.bits), len(t.log)
	for range (count + 63) / 64 {
		t.bits = append(t.bits, 0)
	}
	return outer
}

func (t *tracker) end(outer tracker) {
	t.bits, t.log = t.bits[:t.base], t.log[:t.start]
	t.active, t.base, t.start = outer.active, outer.base, outer.start
}

// mark records that the member or element at an index is evaluated.
func (t *tracker) mark(index int) {
	word, bit := &t.bits[t.base+index/64], uint64(1)<<(index%64)
	if *word&bit == 0 {
		*word |= bit
		t.log = append(t.log, uint32(index))
	}
}

func (t *tracker) has(index int) bool { return t.bits[t.base+index/64]&(1<<(index%64)) != 0 }

// undo removes the marks after the first n entries of the log.
func (t *tracker) undo(n int) {
	for _, index := range t.log[n:] {
		t.bits[t.base+int(index)/64] &^= 1 << (index % 64)
	}
	t.log = t.log[:n]
}

// size returns the capacity of the memory.
func (t *tracker) size() int { return max(cap(t.bits), cap(t.log)) }
