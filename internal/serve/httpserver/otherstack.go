package httpserver

import (
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
)

// onOtherStack runs f in another goroutine, waits for it and returns its result. The runtime
// halves a stack only while less than a quarter of it is in use, so that the goroutine of an open
// event stream would keep most of what its deepest call has needed.
//
// If f panics or calls runtime.Goexit, so does onOtherStack. The value of the panic is a
// *relayedPanic, unless it is [http.ErrAbortHandler].
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
				panicked = &relayedPanic{panicked, debug.Stack()}
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

// relayedPanic is the value of a panic of another goroutine.
type relayedPanic struct {
	value any
	stack []byte
}

func (p *relayedPanic) Error() string { return fmt.Sprintf("%v\n\n%s", p.value, p.stack) }

// Unwrap returns the value if it is an error.
func (p *relayedPanic) Unwrap() error {
	err, _ := p.value.(error)
	return err
}
