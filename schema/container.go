package schema

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/parley-mcp/parley/internal/jsonscan"
)

func (r *run) checkObject(o *objectRules, at uint32) bool {
	t := r.Tokens[at]
	ok := true
	if int(t.Count) < o.minimum {
		ok = r.failSize("at least", o.minimum, "property", at)
	}
	if o.maximum != unbounded && int(t.Count) > o.maximum {
		ok = r.failSize("at most", o.maximum, "property", at)
	}
	missing, hint, index := o.required, 0, 0
	for i := at + 1; i < t.Next && r.goesOn(ok); i = r.Tokens[i+1].Next {
		value := i + 1
		known := o.anyName
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
			if pattern := &o.patterns[p]; r.match(pattern.pattern, r.memberName(i)) {
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

// memberName returns the text of a key, valid until the next call. It charges
// for escapes, because a key is read once for each pattern.
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

// search returns the value of a key, as member does, and charges for its work. When the
// time is up, it finds nothing.
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

// checkContains counts the elements that match. An element that may match
// counts towards the minimum, but not towards the maximum.
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

// valueSet is the set of values that "enum" or "const" allows. Values are compared by
// their canonical forms, which have the same bytes if and only if JSON Schema regards
// the values as equal: 1 equals 1.0, and the order of keys does not matter.
type valueSet struct {
	canonical map[string]struct{}
	shown     string // for messages
}

// newValueSet returns the set of the values at the given tokens.
func newValueSet(d *document, values []uint32) *valueSet {
	set := &valueSet{canonical: make(map[string]struct{}, len(values))}
	shown := make([]string, 0, min(len(values), maxListed+1))
	for _, at := range values {
		set.canonical[string(d.appendCanonical(nil, at, unlimited))] = struct{}{}
		if len(shown) <= maxListed {
			shown = append(shown, d.show(at))
		}
	}
	set.shown = list(shown)
	return set
}

// unlimited is the spend of work that needs no limit.
func unlimited(int) bool { return true }

// appendCanonical appends the canonical form of a value: a byte for its kind, then
// its content with a length or an end. It calls spend for work that grows faster
// than the length of the value. The form is unspecified if spend fails.
func (d *document) appendCanonical(dst []byte, at uint32, spend func(units int) bool) []byte {
	t := &d.Tokens[at]
	switch t.Kind {
	case kindString:
		return d.appendCanonicalText(dst, at)
	case kindNumber:
		return appendCanonicalNumber(dst, d.Raw[t.Start:t.End])
	case kindArray:
		dst = binary.AppendUvarint(append(dst, '['), uint64(t.Count))
		for i := at + 1; i < t.Next; i = d.Tokens[i].Next {
			dst = d.appendCanonical(dst, i, spend)
		}
		return dst
	case kindObject:
		type member struct {
			name string
			at   uint32
		}
		members := make([]member, 0, t.Count)
		for i := at + 1; i < t.Next; i = d.Tokens[i+1].Next {
			members = append(members, member{d.Text(i), i})
		}
		slices.SortFunc(members, func(a, b member) int {
			if !spend(1 + min(len(a.name), len(b.name))/bytesPerUnit) {
				return 0
			}
			return strings.Compare(a.name, b.name)
		})
		dst = binary.AppendUvarint(append(dst, '{'), uint64(t.Count))
		for _, m := range members {
			dst = d.appendCanonicalText(dst, m.at)
			dst = d.appendCanonical(dst, m.at+1, spend)
		}
		return dst
	default: // null, true and false differ in their first letter
		return append(dst, d.Raw[t.Start])
	}
}

// appendCanonicalText writes the length with a fixed width, because it is known only
// after unescaping.
func (d *document) appendCanonicalText(dst []byte, at uint32) []byte {
	t := &d.Tokens[at]
	dst = append(dst, '"', 0, 0, 0, 0)
	start := len(dst)
	if t.Plain {
		dst = append(dst, d.Raw[t.Start:t.End]...)
	} else {
		dst = jsonscan.AppendUnescaped(dst, d.Raw[t.Start:t.End])
	}
	binary.BigEndian.PutUint32(dst[start-4:], uint32(len(dst)-start))
	return dst
}

func appendCanonicalNumber(dst, literal []byte) []byte {
	n := parseDecimal(literal)
	if n.negative {
		dst = append(dst, '-')
	}
	dst = append(append(append(dst, '0', '.'), n.head...), n.tail...)
	return append(strconv.AppendInt(append(dst, 'e'), n.point, 10), ';')
}

// show describes a value for a message: a scalar by its value, a container by its size.
func (d *document) show(at uint32) string {
	t := &d.Tokens[at]
	switch t.Kind {
	case kindString:
		return quote(d.excerpt(at, maxQuoted+utf8.UTFMax))
	case kindArray:
		return "array of " + count(int(t.Count), "item")
	case kindObject:
		return "object with " + count(int(t.Count), "property")
	default:
		s := string(d.Raw[t.Start:min(t.End, t.Start+maxQuoted)])
		if t.End-t.Start > maxQuoted {
			s += "…"
		}
		return s
	}
}

// describe describes a value, as show does, and adds its kind unless that is already
// clear.
func (d *document) describe(at uint32) string {
	switch d.Tokens[at].Kind {
	case kindString, kindNumber, kindBoolean:
		return d.Tokens[at].Kind.String() + " " + d.show(at)
	}
	return d.show(at)
}

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
	if ok && r.tracker.active { // by now, everything has been evaluated
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

// target returns the node that a dynamic reference leads to, in the outermost
// resource of the dynamic scope that has the anchor.
func (r *run) target(d *dynamicRef) *node {
	r.spend(len(r.scope))
	for _, resource := range r.scope {
		if n := resource.nodes[d.name]; n != nil {
			return n
		}
	}
	return d.fallback
}

// checkUnevaluated checks the properties or elements of the value at a token that
// no other keyword has evaluated.
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

// tracker records which properties or elements of one value have been evaluated.
// It is active while the keywords of that value are checked, but not while its
// properties and elements are checked. Trackers of nested values share memory.
type tracker struct {
	active bool
	base   int      // start of the value's bits, in words
	start  int      // start of the value's entries in log
	bits   []uint64 // one for each property or element
	log    []uint32 // indexes of the set bits, in the order in which they were set
}

// begin starts to track a value with a number of properties or elements. It
// returns the state that end restores.
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

// mark records that the property or element at an index is evaluated.
func (t *tracker) mark(index int) {
	word, bit := &t.bits[t.base+index/64], uint64(1)<<(index%64)
	if *word&bit == 0 {
		*word |= bit
		t.log = append(t.log, uint32(index))
	}
}

func (t *tracker) has(index int) bool { return t.bits[t.base+index/64]&(1<<(index%64)) != 0 }

// undo removes all marks after the first n entries of the log.
func (t *tracker) undo(n int) {
	for _, index := range t.log[n:] {
		t.bits[t.base+int(index)/64] &^= 1 << (index % 64)
	}
	t.log = t.log[:n]
}

// size returns the capacity of the memory.
func (t *tracker) size() int { return max(cap(t.bits), cap(t.log)) }
