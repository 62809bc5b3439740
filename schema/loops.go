package schema

// steps lists where a subschema leads: beside at the same instance, below at a
// part of it.
type steps[N any] interface {
	beside(visit func(N))
	below(visit func(N))
}

// maxChain bounds how many subschemas in a row may look at the same instance.
// Together with the depth of instances it bounds the stack.
const maxChain = 256

// checkLoops refuses schemas whose references lead back to themselves without
// going down into the instance: they describe nothing, and whoever follows them
// all takes factorial time. Chains longer than maxChain are refused likewise.
// Loops that go through a property or an element, as a tree's do, are fine.
func checkLoops[N interface {
	comparable
	steps[N]
}](root N) error {
	const visiting = -1
	chain := map[N]int{} // the longest chain from a node, or visiting
	seen := map[N]bool{root: true}
	queue := []N{root}

	var err error
	var longest func(N, int) int
	longest = func(n N, depth int) int {
		switch known, ok := chain[n]; {
		case err != nil:
			return 0
		case ok && known == visiting:
			err = &RefError{Ref: "$ref", Reason: "leads back to itself; let it pass through a property or an element"}
			return 0
		case ok:
			return known
		case depth > maxChain:
			err = tooMany("references in a row", maxChain)
			return 0
		}
		chain[n] = visiting
		most := 0
		n.beside(func(m N) {
			if !seen[m] {
				seen[m] = true
				queue = append(queue, m)
			}
			most = max(most, longest(m, depth+1)+1)
		})
		chain[n] = most
		if most > maxChain && err == nil {
			err = tooMany("references in a row", maxChain)
		}
		return most
	}
	for len(queue) > 0 && err == nil {
		n := queue[0]
		queue = queue[1:]
		longest(n, 0)
		n.below(func(m N) {
			if !seen[m] {
				seen[m] = true
				queue = append(queue, m)
			}
		})
	}
	return err
}
