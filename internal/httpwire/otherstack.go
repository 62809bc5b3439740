package httpwire

import (
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
)

// onOtherStack runs f in another goroutine, waits for it and returns its result. The stack of a
// goroutine grows and rarely shrinks, so that the goroutine of an open event stream would keep
// the memory that its deepest call has needed.
//
// If f panics or calls runtime.Goexit, so does onOtherStack. The value of the panic has the
// stack of f, unless it is [http.ErrAbortHandler].
func onOtherStack(f func() bool) bool {
	var (
		result, returned bool
		panicked         any
		done             = make(chan struct{})
	)
	go func() {
		defer close(done)
		defer func() {
			if panicked = recover(); panicked != nil && panicked != http.ErrAbortHandler {
				panicked = fmt.Sprintf("%v\n\n%s", panicked, debug.Stack())
			}
		}()
		result = f()
		returned = true
	}()
	<-done
	switch {
	case returned:
	case panicked != nil:
		panic(panicked)
	default:
		runtime.Goexit()
	}
	return result
}
