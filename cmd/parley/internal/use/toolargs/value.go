package toolargs

import (
	"encoding/json"
	"iter"
	"slices"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/schema"
)

// budget is the work that reading one schema may take, in steps of some ten nanoseconds. A peer wrote the schema, so
// everything that loops over a part of it takes from the budget: the methods of value, and the iterators of node. When
// the budget is used up, the rest of the schema has no rules.
type budget struct{ left int }

// maxWork is the budget for one schema.
const maxWork = 2 << 20

// spend uses n steps and reports whether the budget allowed them.
func (b *budget) spend(n int) bool {
	b.left -= n
	return b.left >= 0
}

// bytesPerStep is the length of JSON that is read in one step.
const bytesPerStep = 16

// value is a part of a schema. Its members or elements are read once. A nil value is absent.
type value struct {
	budget   *budget
	raw      json.RawMessage
	read     bool
	names    []string // of the members, in their order
	byName   map[string]*value
	elements []*value
}

// open reads the members or elements, unless they have been read or the budget is used up.
func (v *value) open() bool {
	if v == nil || !v.budget.spend(1) {
		return false
	}
	if v.read || !v.budget.spend(len(v.raw)/bytesPerStep) {
		return v.read
	}
	v.read = true
	switch {
	case v.isObject():
		v.byName = make(map[string]*value)
		for name, raw := range jsonrpc.All(v.raw) {
			if v.byName[name] == nil {
				v.names = append(v.names, name)
				v.byName[name] = &value{budget: v.budget, raw: raw}
			}
		}
	case v.isArray():
		var all []json.RawMessage
		_ = schema.Decode(v.raw, &all) // it is valid JSON
		for _, raw := range all {
			v.elements = append(v.elements, &value{budget: v.budget, raw: raw})
		}
	}
	return true
}

// member returns a member of an object, or nil.
func (v *value) member(name string) *value {
	if !v.open() {
		return nil
	}
	return v.byName[name]
}

// members yields the names of the members of an object.
func (v *value) members() iter.Seq[string] {
	return func(yield func(string) bool) {
		if !v.open() {
			return
		}
		for _, name := range v.names {
			if !v.budget.spend(1) || !yield(name) {
				return
			}
		}
	}
}

// list yields the elements of an array.
func (v *value) list() iter.Seq2[int, *value] {
	return func(yield func(int, *value) bool) {
		if !v.open() {
			return
		}
		for i, element := range v.elements {
			if !v.budget.spend(1) || !yield(i, element) {
				return
			}
		}
	}
}

// element returns an element of an array, or nil.
func (v *value) element(i int) *value {
	if !v.open() || i >= len(v.elements) {
		return nil
	}
	return v.elements[i]
}

func (v *value) isObject() bool { return v != nil && len(v.raw) > 0 && v.raw[0] == '{' }
func (v *value) isArray() bool  { return v != nil && len(v.raw) > 0 && v.raw[0] == '[' }
func (v *value) isFalse() bool  { return v != nil && string(v.raw) == "false" }
func (v *value) isTrue() bool   { return v != nil && string(v.raw) == "true" }

// text returns a string.
func (v *value) text() (text string, ok bool) {
	if v == nil || len(v.raw) == 0 || v.raw[0] != '"' || !v.budget.spend(1+len(v.raw)/bytesPerStep) {
		return "", false
	}
	return jsonrpc.Unquote(v.raw), true
}

// texts returns the strings in an array.
func (v *value) texts() (all []string) {
	for _, element := range v.list() {
		if text, ok := element.text(); ok {
			all = append(all, text)
		}
	}
	return all
}

// wordSet is a set of words.
type wordSet map[string]bool

func setOf(list []string) wordSet {
	set := make(wordSet, len(list))
	for _, w := range list {
		set[w] = true
	}
	return set
}

// only returns the words of a list that are in the set, without repetitions.
func (set wordSet) only(list []string) []string {
	return slices.DeleteFunc(distinct(list), func(w string) bool { return !set[w] })
}

// distinct returns words without repetitions.
func distinct(list []string) (all []string) {
	seen := make(wordSet)
	for _, w := range list {
		if !seen[w] {
			all = append(all, w)
		}
		seen[w] = true
	}
	return all
}
