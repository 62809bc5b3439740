package store

// expiryHeap is a binary min-heap of entries, ordered by due. It does not use container/heap, whose
// interface converts each element to any.
//
// Invariant: h[i].index == i, and h[i].due is not before h[(i-1)/2].due.
type expiryHeap []*entry

func (h *expiryHeap) push(e *entry) {
	e.index = len(*h)
	*h = append(*h, e)
	h.up(e.index)
}

func (h *expiryHeap) remove(e *entry) {
	old := *h
	i, last := e.index, len(old)-1
	h.swap(i, last)
	old[last] = nil
	*h = old[:last]
	if i < last {
		h.up(i)
		h.down(i)
	}
	if c := cap(*h); c > 1024 && last < c/4 { // release memory after a peak, as Memory.remove does
		*h = append(make(expiryHeap, 0, c/2), *h...)
	}
}

// advance moves e to an earlier time.
func (h *expiryHeap) advance(e *entry, due int64) {
	e.due = due
	h.up(e.index)
}

// postpone moves e to a later time.
func (h *expiryHeap) postpone(e *entry, due int64) {
	e.due = due
	h.down(e.index)
}

func (h expiryHeap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if h[parent].due <= h[i].due {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h expiryHeap) down(i int) {
	for {
		first := 2*i + 1
		if first >= len(h) {
			return
		}
		if right := first + 1; right < len(h) && h[right].due < h[first].due {
			first = right
		}
		if h[i].due <= h[first].due {
			return
		}
		h.swap(i, first)
		i = first
	}
}

func (h expiryHeap) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
