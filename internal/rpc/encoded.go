package rpc

import "reflect"

// Encoded is a result whose encoding is known. A server's handler returns one for a list, which is encoded once for
// many calls, and for the result of another server. It must not be modified, and is safe for concurrent use.
type Encoded struct {
	// Append appends the result, encoded for the revision of the call, on one line.
	Append func(dst []byte) []byte
	// Result returns the result, a pointer to a struct. It is called only if middleware looks at results.
	Result func() any
	// Fresh means that the Encoded is for one call: Result returns a new result, and Append is called at
	// most once, after Result. Otherwise calls share what the fields of the result refer to.
	Fresh bool
}

// Handed is a result that middleware received, with its encoding. Middleware receives a shallow copy of the struct, so
// it may change the fields. Slices, maps and pointers are shared with other calls, unless the result is fresh.
type Handed struct {
	encoded      *Encoded
	before, Copy any
}

// Hand returns a copy of the result for middleware.
func Hand(e *Encoded) *Handed {
	result := e.Result()
	original := reflect.ValueOf(result).Elem()
	copied := reflect.New(original.Type())
	copied.Elem().Set(original)
	if e.Fresh {
		detach(original)
	}
	return &Handed{encoded: e, before: result, Copy: copied.Interface()}
}

// Unchanged returns the encoding of result if middleware returned the result unchanged. h is nil if middleware received
// no result with an encoding: it did not call the next handler, or the method has no type.
func (h *Handed) Unchanged(result any) (e *Encoded, ok bool) {
	switch {
	case h == nil || h.Copy != result:
		return nil, false
	case h.encoded.Fresh:
		return h.encoded, reflect.DeepEqual(h.before, h.Copy)
	}
	return h.encoded, same(reflect.ValueOf(h.before).Elem(), reflect.ValueOf(h.Copy).Elem())
}

// detach replaces the slices, maps, pointers and interfaces in v by deep copies.
func detach(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Field(i); field.CanSet() {
				detach(field)
			}
		}
	case reflect.Slice:
		if v.IsNil() {
			return
		}
		copied := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(copied, v)
		if v.Type().Elem().Kind() != reflect.Uint8 {
			for i := range copied.Len() {
				detach(copied.Index(i))
			}
		}
		v.Set(copied)
	case reflect.Map:
		if v.IsNil() {
			return
		}
		copied := reflect.MakeMapWithSize(v.Type(), v.Len())
		for key, value := range v.Seq2() {
			copied.SetMapIndex(key, detached(value))
		}
		v.Set(copied)
	case reflect.Interface:
		if !v.IsNil() {
			v.Set(detached(v.Elem()))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			v.Set(detached(v.Elem()).Addr())
		}
	}
}

// detached returns a copy of v for which detach was called.
func detached(v reflect.Value) reflect.Value {
	copied := reflect.New(v.Type()).Elem()
	copied.Set(v)
	detach(copied)
	return copied
}

// same reports whether two values of a type are equal, where slices, maps and pointers are
// equal if they refer to the same memory.
func same(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			if !same(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice:
		return a.Len() == b.Len() && a.Pointer() == b.Pointer() && a.IsNil() == b.IsNil()
	case reflect.Map:
		return a.Pointer() == b.Pointer()
	case reflect.Interface:
		return a.IsNil() == b.IsNil() && (a.IsNil() || a.Elem().Type() == b.Elem().Type() && same(a.Elem(), b.Elem()))
	default:
		return a.Comparable() && b.Comparable() && a.Equal(b)
	}
}
