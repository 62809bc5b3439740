package schema

// maxChain bounds the number of subschemas in a row that examine the same value.
// Together with the depth of instances it bounds the stack.
const maxChain = 256

// checkCycles rejects programs whose references lead back to themselves without
// going down into the value. Such a schema describes nothing, and following it
// would not end. It rejects chains longer than maxChain likewise. Cycles that
// pass through a property or an element, as those of a tree do, are accepted. A
// dynamic reference is taken to lead to all its possible targets.
func checkCycles(root *node) error {
	c := cycles{chain: map[*node]int{}, seen: map[*node]bool{root: true}, queue: []*node{root}}
	for len(c.queue) > 0 {
		n := c.queue[0]
		c.queue = c.queue[1:]
		if _, err := c.longest(n, 0); err != nil {
			return err
		}
		n.children(c.enqueue)
	}
	return nil
}

type cycles struct {
	chain map[*node]int // length of the longest chain from a node, or inProgress
	seen  map[*node]bool
	queue []*node
}

const inProgress = -1

func (c *cycles) enqueue(n *node) {
	if !c.seen[n] {
		c.seen[n] = true
		c.queue = append(c.queue, n)
	}
}

// longest returns the length of the longest chain that begins at n.
func (c *cycles) longest(n *node, depth int) (int, error) {
	switch known, ok := c.chain[n]; {
	case ok && known == inProgress:
		return 0, &RefError{Ref: "$ref", Reason: "leads back to itself; let it pass through a property or an element"}
	case ok:
		return known, nil
	case depth > maxChain:
		return 0, tooMany("references in a row", maxChain)
	}
	c.chain[n] = inProgress
	most := 0
	var err error
	n.inPlace(func(m *node) {
		c.enqueue(m)
		if err != nil {
			return
		}
		var child int
		if child, err = c.longest(m, depth+1); err == nil {
			most = max(most, child+1)
		}
	})
	c.chain[n] = most
	if most > maxChain && err == nil {
		err = tooMany("references in a row", maxChain)
	}
	return most, err
}
