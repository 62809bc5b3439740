package rpc

import "reflect"

// Encoded is a result together with its encoding. A server's handler returns one for a list,
// which is encoded once for many calls. It must not be modified, and is safe for concurrent use.
type Encoded struct {
	JSON []byte // of the result, in the revision of the call
	// Result returns the result, a pointer to a struct. It may return the same pointer to
	// concurrent calls. It is called only if middleware looks at results.
	Result func() any
}

// handed is a result that middleware received, with its encoding. Middleware receives a shallow
// copy of the struct, so it may change the fields. Slices, maps and pointers are shared.
type handed struct {
	json           []byte
	original, copy any
}

// hand returns a copy of result for middleware.
func hand(result any, json []byte) *handed {
	original := reflect.ValueOf(result).Elem()
	copied := reflect.New(original.Type())
	copied.Elem().Set(original)
	return &handed{json: json, original: result, copy: copied.Interface()}
}

// encoding returns the encoding of result if middleware returned the result unchanged.
func (h *handed) encoding(result any) (json []byte, ok bool) {
	if h == nil || h.copy != result {
		return nil, false
	}
	return h.json, same(reflect.ValueOf(h.original).Elem(), reflect.ValueOf(h.copy).Elem())
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
