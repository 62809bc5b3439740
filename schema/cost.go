package schema

import (
	"math"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// graph lists where the library's subschemas lead, with the references that are
// resolved only while validating taken to lead everywhere that they could.
type graph struct {
	dynamic   map[string][]*jsonschema.Schema // by $dynamicAnchor
	recursive []*jsonschema.Schema            // with $recursiveAnchor
}

// graphNode is a subschema in its graph.
type graphNode struct {
	schema *jsonschema.Schema
	graph  *graph
}

func (g *graph) node(s *jsonschema.Schema) graphNode { return graphNode{s, g} }

// newGraph collects the dynamic anchors of all subschemas that root leads to.
func newGraph(root *jsonschema.Schema) *graph {
	g := &graph{dynamic: map[string][]*jsonschema.Schema{}}
	seen := map[*jsonschema.Schema]bool{root: true}
	queue := []*jsonschema.Schema{root}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		if s.DynamicAnchor != "" {
			g.dynamic[s.DynamicAnchor] = append(g.dynamic[s.DynamicAnchor], s)
		}
		if s.RecursiveAnchor {
			g.recursive = append(g.recursive, s)
		}
		follow := func(n graphNode) {
			if !seen[n.schema] {
				seen[n.schema] = true
				queue = append(queue, n.schema)
			}
		}
		n := graphNode{s, &graph{}}
		n.beside(follow)
		n.below(follow)
	}
	return g
}

func (n graphNode) beside(visit func(graphNode)) {
	n.fixed(visit)
	for _, target := range n.moving() {
		visit(graphNode{target, n.graph})
	}
}

// fixed visits what looks at the same value whatever the way here.
func (n graphNode) fixed(visit func(graphNode)) {
	s := n.schema
	each := func(list ...*jsonschema.Schema) {
		for _, sub := range list {
			if sub != nil {
				visit(graphNode{sub, n.graph})
			}
		}
	}
	each(s.Ref, s.Not, s.If, s.Then, s.Else)
	each(s.AllOf...)
	each(s.AnyOf...)
	each(s.OneOf...)
	for _, sub := range s.DependentSchemas {
		each(sub)
	}
	for _, dependency := range s.Dependencies {
		if sub, ok := dependency.(*jsonschema.Schema); ok {
			each(sub)
		}
	}
}

// moving returns where a reference that depends on the way here could lead.
func (n graphNode) moving() []*jsonschema.Schema {
	var targets []*jsonschema.Schema
	if s := n.schema; s.RecursiveRef != nil {
		targets = append(targets, s.RecursiveRef)
		if s.RecursiveRef.RecursiveAnchor {
			targets = append(targets, n.graph.recursive...)
		}
	}
	if ref := n.schema.DynamicRef; ref != nil {
		targets = append(targets, ref.Ref)
		if ref.Anchor != "" && ref.Ref.DynamicAnchor == ref.Anchor {
			targets = append(targets, n.graph.dynamic[ref.Anchor]...)
		}
	}
	return targets
}

func (n graphNode) below(visit func(graphNode)) {
	s := n.schema
	each := func(list ...*jsonschema.Schema) {
		for _, sub := range list {
			if sub != nil {
				visit(graphNode{sub, n.graph})
			}
		}
	}
	for _, sub := range s.Properties {
		each(sub)
	}
	for _, sub := range s.PatternProperties {
		each(sub)
	}
	for _, maybe := range []any{s.AdditionalProperties, s.AdditionalItems, s.Items} {
		switch sub := maybe.(type) {
		case *jsonschema.Schema:
			each(sub)
		case []*jsonschema.Schema:
			each(sub...)
		}
	}
	each(s.PrefixItems...)
	each(s.PropertyNames, s.UnevaluatedProperties, s.UnevaluatedItems, s.Items2020, s.Contains)
}

// unitTime is what the library takes for a unit of work, rather too much.
const unitTime = 2 * time.Microsecond

func budget(l Limits) int64 { return int64(l.MaxTime / unitTime) }

// visit is a subschema at a value.
type visit struct {
	schema *jsonschema.Schema
	at     uint32
}

// work adds up an upper bound of what the library will do with an instance, by
// walking the same way but each pair of subschema and value only once. What it
// does itself is charged to left, and it stops when nothing is.
type work struct {
	*document
	graph *graph
	left  int64 // of steps of our own
	known map[visit]int64
}

// affordable reports whether validating the whole instance fits the budget.
func (w *work) affordable(root *jsonschema.Schema) bool {
	most := w.left
	return w.cost(root, 0) <= most && w.left >= 0
}

// tooMuch stands for any cost beyond the budget; sums of a few do not overflow.
const tooMuch = math.MaxInt64 / 4

func add(a, b int64) int64 { return min(a+b, tooMuch) }

// cost bounds the units of work for s at a value. The graph has no loops at one
// value (checkLoops), and values get smaller, so that it ends.
func (w *work) cost(s *jsonschema.Schema, at uint32) int64 {
	v := visit{s, at}
	if c, ok := w.known[v]; ok {
		return c
	}
	if w.left--; w.left < 0 {
		return tooMuch
	}
	t := &w.Tokens[at]
	total := w.own(s, at)
	n := graphNode{s, w.graph}
	n.fixed(func(m graphNode) { total = add(total, w.cost(m.schema, at)) })
	most := int64(0)
	for _, target := range n.moving() { // one of them
		most = max(most, w.cost(target, at))
	}
	total = add(total, most)
	switch t.Kind {
	case kindObject:
		for i := at + 1; i < t.Next && total < tooMuch; i = w.Tokens[i+1].Next {
			total = add(total, w.member(s, i))
		}
	case kindArray:
		index := 0
		for i := at + 1; i < t.Next && total < tooMuch; i = w.Tokens[i].Next {
			total = add(total, w.element(s, index, i))
			index++
		}
	}
	w.known[v] = total
	return total
}

// own bounds the work for the assertions of s itself.
func (w *work) own(s *jsonschema.Schema, at uint32) int64 {
	t := &w.Tokens[at]
	values := int64(t.Next - at)
	bytes := int64(t.End - t.Start)
	total := 1 + int64(t.Count)/8 + bytes/1024
	if s.Enum != nil {
		total += int64(len(s.Enum.Values)) * (1 + values/8) / 4
	}
	if s.Const != nil {
		total += values / 8
	}
	total += int64(len(s.Required)+len(s.DependentRequired)+len(s.Dependencies)) / 8
	switch t.Kind {
	case kindString:
		if p, ok := s.Pattern.(libraryRegexp); ok {
			total += bytes * int64(p.size) / 64
		}
		if s.Format != nil {
			total += bytes / 16
		}
	case kindNumber:
		total += bytes / 32
	case kindArray:
		if s.UniqueItems {
			n := int64(t.Count)
			pairs := n * n / 2
			if n > 20 { // hashed
				pairs = n * n / 64
			}
			total += values + pairs*(1+values/(n+1)/8)/8
		}
	}
	return total
}

// member bounds the work for one member of an object.
func (w *work) member(s *jsonschema.Schema, name uint32) int64 {
	value := name + 1
	total := int64(1)
	text := w.text(name)
	if sub, ok := s.Properties[text]; ok {
		total = add(total, w.cost(sub, value))
	}
	for re, sub := range s.PatternProperties {
		matching := int64(len(text))
		if p, ok := re.(libraryRegexp); ok {
			matching = matching * int64(p.size) / 64
		}
		total = add(total, 1+matching)
		if w.left -= matching; w.left < 0 {
			return tooMuch
		}
		if re.MatchString(text) {
			total = add(total, w.cost(sub, value))
		}
	}
	if sub, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
		total = add(total, w.cost(sub, value))
	}
	if s.UnevaluatedProperties != nil {
		total = add(total, w.cost(s.UnevaluatedProperties, value))
	}
	if s.PropertyNames != nil {
		total = add(total, w.cost(s.PropertyNames, name))
	}
	return total
}

// element bounds the work for one element of an array.
func (w *work) element(s *jsonschema.Schema, index int, at uint32) int64 {
	total := int64(0)
	visit := func(sub *jsonschema.Schema) {
		if sub != nil {
			total = add(total, w.cost(sub, at))
		}
	}
	switch items := s.Items.(type) {
	case *jsonschema.Schema:
		visit(items)
	case []*jsonschema.Schema:
		if index < len(items) {
			visit(items[index])
		} else if sub, ok := s.AdditionalItems.(*jsonschema.Schema); ok {
			visit(sub)
		}
	}
	if index < len(s.PrefixItems) {
		visit(s.PrefixItems[index])
	} else {
		visit(s.Items2020)
	}
	visit(s.Contains)
	visit(s.UnevaluatedItems)
	return total
}
