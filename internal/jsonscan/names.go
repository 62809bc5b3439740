package jsonscan

import "hash/maphash"

// InlineNames is the number of names that a caller's own array should hold, so
// that scanning ordinary text allocates nothing.
const InlineNames = 32

// linearNames is the number of members of an object up to which each name is
// compared with every other. Above it a hash table takes over, because comparing
// would take quadratic time.
const linearNames = 24

// firstSlots is the size of an object's first hash table.
const firstSlots = 128

// Names holds the member names of the objects that are being scanned, those of
// the innermost object last. Duplicate names are found in it.
//
// All objects of one scan share one Names, and so its growth. If each object had
// a list of its own, every one of many small objects would allocate.
type Names struct {
	list  []string
	table []uint32 // the hash tables of large objects, one after the other
	seed  maphash.Seed
	most  int // the greatest length of list when an object was closed
}

// NamesIn returns an empty Names that stores its first names in inline.
func NamesIn(inline []string) Names { return Names{list: inline[:0]} }

// Reset removes all names but keeps the memory that holds them. It overwrites the
// names, so that the memory no longer refers to the text.
func (n *Names) Reset() {
	if most := max(n.most, len(n.list)); most > 0 {
		clear(n.list[:most])
	}
	n.list, n.table, n.most = n.list[:0], n.table[:0], 0
}

// size returns the capacity of what Reset keeps.
func (n *Names) size() int { return max(cap(n.list), cap(n.table)) }

// openObject is the part of Names that belongs to one object.
type openObject struct {
	first int // index of its first name in the list
	count int
	only  string // its name if it has no more than one
	table int    // index of its hash table
	slots int    // size of its hash table, a power of two; 0 if it has none
}

// close removes the names of the innermost object.
func (n *Names) close(o *openObject) {
	n.most = max(n.most, len(n.list))
	n.list = n.list[:o.first]
	if o.slots > 0 {
		n.table = n.table[:o.table]
	}
}

// claim adds a name to the innermost object and reports whether it is new there.
func (n *Names) claim(o *openObject, name string) bool {
	o.count++
	switch {
	case o.count == 1:
		o.only = name
		return true
	case o.count == 2:
		n.push(o.only)
	case o.count > linearNames:
		return n.claimSlot(o, name)
	}
	for _, other := range n.list[o.first:] {
		if other == name {
			return false
		}
	}
	n.push(name)
	return true
}

// claimSlot is claim for a large object. The table has open addressing and is at
// most half full. A slot holds the index of a name in the object plus one.
func (n *Names) claimSlot(o *openObject, name string) bool {
	if 2*o.count > o.slots {
		n.rehash(o)
	}
	slot := n.slot(o, name)
	if n.table[slot] != 0 {
		return false
	}
	n.table[slot] = uint32(o.count)
	n.push(name)
	return true
}

// slot returns the index of the slot that holds a name, or should hold it.
func (n *Names) slot(o *openObject, name string) int {
	mask := o.slots - 1
	i := int(maphash.String(n.seed, name)) & mask
	for {
		index := n.table[o.table+i]
		if index == 0 || n.list[o.first+int(index)-1] == name {
			return o.table + i
		}
		i = (i + 1) & mask
	}
}

// rehash gives the innermost object a larger table, which is the last one.
func (n *Names) rehash(o *openObject) {
	if n.seed == (maphash.Seed{}) {
		n.seed = maphash.MakeSeed() // the sender of the text cannot choose names that collide
	}
	if o.slots == 0 {
		o.slots, o.table = firstSlots, len(n.table)
	} else {
		o.slots *= 2
	}
	if need := o.table + o.slots; need > cap(n.table) {
		wider := make([]uint32, o.table, max(need, 2*cap(n.table)))
		copy(wider, n.table)
		n.table = wider
	}
	n.table = n.table[:o.table+o.slots]
	clear(n.table[o.table:])
	for i, name := range n.list[o.first:] {
		n.table[n.slot(o, name)] = uint32(i) + 1
	}
}

// push appends a name. Unlike append it is written so that escape analysis keeps
// the first list on the stack of the scan's caller.
func (n *Names) push(name string) {
	l := len(n.list)
	if l == cap(n.list) {
		wider := make([]string, l, max(2*l, InlineNames))
		copy(wider, n.list)
		n.list = wider
	}
	n.list = n.list[:l+1]
	n.list[l] = name
}
