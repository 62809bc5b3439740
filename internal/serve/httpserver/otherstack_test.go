package httpserver

import (
	"errors"
	"net/http"
	"runtime"
	"strings"
	"testing"
)

// outcome returns how onOtherStack ends: the result, the value of the panic, or neither after
// runtime.Goexit.
func outcome(f func() bool) (result, returned bool, panicked any) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { panicked = recover() }()
		result = onOtherStack(f)
		returned = true
	}()
	<-done
	return result, returned, panicked
}

var errBroken = errors.New("broken")

func panicHere() bool { panic(errBroken) }

func TestOnOtherStackEndsAsItsFunction(t *testing.T) {
	for _, want := range []bool{true, false} {
		if result, returned, panicked := outcome(func() bool { return want }); !returned || result != want {
			t.Errorf("returned %v, result %v, panic %v; want the result %v", returned, result, panicked, want)
		}
	}
	_, _, panicked := outcome(panicHere)
	if err, _ := panicked.(error); !errors.Is(err, errBroken) || !strings.HasPrefix(err.Error(), "broken\n") || !strings.Contains(err.Error(), "httpserver.panicHere") {
		t.Errorf("panic %v; want the value and the stack of the function", panicked)
	}
	if _, _, panicked := outcome(func() bool { panic(http.ErrAbortHandler) }); panicked != http.ErrAbortHandler {
		t.Errorf("panic %v; want http.ErrAbortHandler", panicked)
	}
	if _, returned, panicked := outcome(func() bool { runtime.Goexit(); return true }); returned || panicked != nil {
		t.Errorf("returned %v, panic %v; want runtime.Goexit", returned, panicked)
	}
}
