package schema

import (
	"errors"
	"sync/atomic"
)

// quota is an amount that one document may use up: subschemas, bytes or other things that do not grow in proportion to
// its length, or that are limited for another reason.
type quota struct {
	what       string
	most, used int64
}

// take uses up n of the quota. If less is left, it uses nothing and returns an error that matches [ErrLimit].
func (q *quota) take(n int64) error {
	if n > q.most-q.used {
		return tooMany(q.what, int(q.most))
	}
	q.used += n
	return nil
}

const limitMemory = "bytes of memory of all regular expressions"

// maxBudget is the memory, in bytes, of all schemas of one Budget.
const maxBudget = 64 << 20

// Budget bounds the memory of the compiled schemas that a program keeps for one peer, such as those of all tools of a
// server: even a short list of schemas can need much memory. The zero value is ready for use and allows 64 MiB. A
// Budget is safe for concurrent use.
type Budget struct{ used atomic.Int64 }

// Compile is like the function [Compile], but the memory of the schema counts towards the budget until
// [Budget.Release]. If the budget is used up, the error matches [ErrLimit]. Memory that a rejected schema used before
// it exceeded a bound is not returned.
func (b *Budget) Compile(raw []byte) (*Schema, error) {
	own := int64(maxPatternMemory)
	left := maxBudget - b.used.Load() - int64(len(raw))
	memory := &quota{what: limitMemory, most: min(own, max(left, 0))}
	if left < 0 {
		return nil, errBudget
	}
	s, _, err := limits{}.compileWithin(raw, memory)
	if limit, ok := errors.AsType[*limitError](err); ok {
		b.used.Add(memory.used)
		if limit.What == limitMemory && memory.most < own {
			return nil, errBudget
		}
	}
	if err != nil {
		return nil, err
	}
	b.used.Add(s.memory)
	s.budget.Store(b)
	return s, nil
}

var errBudget = tooMany("bytes of memory of all schemas of one peer", maxBudget)

// Release returns the memory of a schema that is no longer used to the budget. It does nothing if s is nil, if another
// budget compiled s, or if s was released before.
func (b *Budget) Release(s *Schema) {
	if s != nil && s.budget.CompareAndSwap(b, nil) {
		b.used.Add(-s.memory)
	}
}

// Estimates of the memory of a compiled schema, in bytes.
const (
	bytesPerSubschema = 200
	bytesPerValue     = 48
)

// measure estimates the memory of a compiled schema.
func (s *Schema) measure(x *index) {
	s.memory = int64(len(s.raw)) + bytesPerValue*int64(len(x.Tokens)) +
		bytesPerSubschema*x.subschemaCount.used + x.patterns.memory.used
}
