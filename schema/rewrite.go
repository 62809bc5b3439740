package schema

import "bytes"

// changes says what a rewrite does to a document.
type changes uint8

const (
	fillDefaults  changes = 1 << iota // absent members get their default
	plainIntegers                     // 1.0, 1e3 and -0 become 1, 1000 and 0 where an integer is due
	dropNulls                         // members whose null means absent are removed
	dropOptional                      // optional members with null are removed
)

// rewrite copies a document with changes. It returns raw itself if nothing changes,
// and a [*ValidationError] if raw is not strict JSON.
func (s *shape) rewrite(raw []byte, c changes) ([]byte, error) {
	r := newRun(0)
	defer r.release()
	if err := r.scan(raw); err != nil {
		return nil, err
	}
	w := rewriter{document: &r.document, changes: c}
	w.value(s, 0)
	if w.out == nil {
		return raw, nil
	}
	return append(w.out, raw[w.done:]...), nil
}

// rewriter copies when it must: out is raw[:done] with the changes made so far.
type rewriter struct {
	*document
	changes changes
	out     []byte
	done    int
}

// replace writes text instead of raw[start:end].
func (w *rewriter) replace(start, end uint32, text []byte) {
	if w.out == nil {
		w.out = make([]byte, 0, len(w.Raw)+len(text)+64)
	}
	w.out = append(append(w.out, w.Raw[w.done:start]...), text...)
	w.done = int(end)
}

func (w *rewriter) value(s *shape, at uint32) {
	t := w.Tokens[at]
	switch {
	case s == nil:
	case s.kind == shapeWriter:
		all := w.changes
		w.changes &= plainIntegers
		w.value(s.elem, at)
		w.changes = all
	case s.kind == shapeInteger && t.Kind == kindNumber && w.changes&plainIntegers != 0:
		if text, ok := plainInteger(w.Bytes(at)); ok && !bytes.Equal(text, w.Bytes(at)) {
			w.replace(t.Start, t.End, text)
		}
	case s.kind == shapeList && t.Kind == kindArray:
		for i := at + 1; i < t.Next; i = w.Tokens[i].Next {
			w.value(s.elem, i)
		}
	case s.kind == shapeMap && t.Kind == kindObject:
		for i := at + 1; i < t.Next; i = w.Tokens[i+1].Next {
			w.value(s.elem, i+1)
		}
	case s.kind == shapeStruct && t.Kind == kindObject:
		w.object(s, at)
	}
}

// maxIntegerDigits is the greatest number of digits of a Go integer.
const maxIntegerDigits = 20

// plainInteger spells an integral number without fraction and exponent. It fails for
// numbers with more digits than a Go integer can have.
func plainInteger(literal []byte) ([]byte, bool) {
	if _, ok := smallInteger(literal); ok && literal[0] != '-' {
		return literal, true
	}
	d := parseDecimal(literal)
	if !d.isInteger() || d.point > maxIntegerDigits {
		return nil, false
	}
	var text []byte
	if d.negative {
		text = append(text, '-')
	}
	text = append(append(text, d.head...), d.tail...)
	for n := int64(d.len()); n < max(d.point, 1); n++ {
		text = append(text, '0')
	}
	return text, true
}

func (w *rewriter) object(s *shape, at uint32) {
	t := w.Tokens[at]
	kept := false  // a previous member remains
	end := t.Start // of the previous member
	for i := at + 1; i < t.Next; i = w.Tokens[i+1].Next {
		value := &w.Tokens[i+1]
		m := s.members[w.Text(i)]
		switch {
		case m == nil:
			w.value(s.elem, i+1)
			kept = true
		case value.Kind != kindNull || w.changes&m.nulls == 0:
			w.value(m.shape, i+1)
			kept = true
		case kept: // with the comma before it
			w.replace(end, value.End, nil)
		case value.Next < t.Next: // with the comma after it
			w.replace(w.Tokens[i].Start-1, w.Tokens[value.Next].Start-1, nil)
		default:
			w.replace(w.Tokens[i].Start-1, value.End, nil)
		}
		end = value.End
		if value.Kind == kindString {
			end++ // the quote
		}
	}
	if w.changes&fillDefaults != 0 && s.needs&needsDefaults != 0 {
		w.fill(s, at)
	}
}

// fill adds the defaults of absent members at the end of an object.
func (w *rewriter) fill(s *shape, at uint32) {
	text := s.appendDefaults(nil, func(name string) bool {
		_, present := w.member(at, name)
		return present
	})
	if text == nil {
		return
	}
	t := w.Tokens[at]
	if t.Count > 0 {
		text = append([]byte{','}, text...)
	}
	w.replace(t.End-1, t.End-1, text)
}

// appendDefaults appends the absent members that have a default, and the absent
// structs that contain such members.
func (s *shape) appendDefaults(b []byte, present func(name string) bool) []byte {
	for _, m := range s.order {
		if present(m.name) || m.preset == nil && !(m.value && m.shape.needs&needsDefaults != 0) {
			continue
		}
		preset := m.preset
		if preset == nil {
			inner := m.shape.appendDefaults(nil, func(string) bool { return false })
			if inner == nil {
				continue // the defaults are in a pointer or a list
			}
			preset = append(append([]byte{'{'}, inner...), '}')
		}
		if b != nil {
			b = append(b, ',')
		}
		b = append(append(appendQuoted(b, m.name), ':'), preset...)
	}
	return b
}
