package schema

import (
	"bytes"
	"hash/maphash"
	"math/bits"
)

// fewNames is the number of members up to which comparing each name with each
// other one is cheaper than hashing.
const fewNames = 16

// nameSeed keeps senders from choosing member names that collide.
var nameSeed = maphash.MakeSeed()

// distinct reports whether the object's member names differ from each other, and
// fails the scan otherwise.
func (d *document) distinct(object int) bool {
	n := int(d.tokens[object].count)
	end := uint32(len(d.tokens))
	first := uint32(object) + 1
	if n <= fewNames {
		for i := d.tokens[first+1].next; i < end; i = d.tokens[i+1].next {
			for j := first; j < i; j = d.tokens[j+1].next {
				if d.sameText(i, j) {
					return d.duplicate(i)
				}
			}
		}
		return true
	}

	// Open addressing at a load of at most one half. Token 0 is never a name, so
	// that zero marks a free slot.
	size := 1 << bits.Len(uint(2*n))
	if cap(d.table) < size {
		d.table = make([]uint32, size)
	}
	d.table = d.table[:size]
	clear(d.table)
	for i := first; i < end; i = d.tokens[i+1].next {
		slot := d.hash(i) & uint64(size-1)
		for d.table[slot] != 0 {
			if d.sameText(i, d.table[slot]) {
				return d.duplicate(i)
			}
			slot = (slot + 1) & uint64(size-1)
		}
		d.table[slot] = i
	}
	return true
}

func (d *document) duplicate(name uint32) bool {
	d.open = d.open[:len(d.open)-1] // the name below stands for it
	text := d.text(name)
	path := appendPointer([]byte(d.openPath()), truncate(text, maxPointer+1))
	d.err = invalid(cutPointer(path), "each member once", "the member "+quote(text)+" twice")
	return false
}

func (d *document) sameText(i, j uint32) bool {
	a, b := &d.tokens[i], &d.tokens[j]
	if a.plain && b.plain {
		return a.end-a.start == b.end-b.start && bytes.Equal(d.raw[a.start:a.end], d.raw[b.start:b.end])
	}
	return d.text(i) == d.text(j)
}

func (d *document) hash(i uint32) uint64 {
	t := &d.tokens[i]
	if t.plain {
		return maphash.Bytes(nameSeed, d.raw[t.start:t.end])
	}
	return maphash.String(nameSeed, d.text(i))
}
