package rpc

import (
	"errors"
	"reflect"
)

// Encoded is a result together with its encoding. A server's handler returns one for a result
// that many calls share, such as a list. Middleware receives Result. If it returns Result, JSON
// is used; if it returns another result, that one is encoded.
//
// An Encoded must not be modified. It is safe for concurrent use.
type Encoded struct {
	Result any    // a pointer to a struct
	JSON   []byte // of Result, in the revision of the call

	shape []extent
}

// extent is where the entries of a slice are.
type extent struct {
	field int
	first uintptr
	count int
}

// NewEncoded returns an Encoded.
func NewEncoded(result any, json []byte) *Encoded {
	e := &Encoded{Result: result, JSON: json}
	v := reflect.ValueOf(result).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Slice {
			e.shape = append(e.shape, extent{i, f.Pointer(), f.Len()})
		}
	}
	return e
}

// errModified is the error of middleware that breaks the contract of call.Handler. It shows the
// mistake to the author of the middleware: otherwise the modification would have no effect.
var errModified = errors.New("middleware modified a result in place: return a changed copy instead")

// check returns an error if a slice of the result was replaced in place. Other modifications
// are not detected.
func (e *Encoded) check() error {
	v := reflect.ValueOf(e.Result).Elem()
	for _, x := range e.shape {
		if f := v.Field(x.field); f.Pointer() != x.first || f.Len() != x.count {
			return errModified
		}
	}
	return nil
}
