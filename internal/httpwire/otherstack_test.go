package httpwire

import (
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

func panicHere() bool { panic("broken") }

func TestOnOtherStackEndsAsItsFunction(t *testing.T) {
	for _, want := range []bool{true, false} {
		if result, returned, panicked := outcome(func() bool { return want }); !returned || result != want {
			t.Errorf("returned %v, result %v, panic %v; want the result %v", returned, result, panicked, want)
		}
	}
	_, _, panicked := outcome(panicHere)
	if text, _ := panicked.(string); !strings.HasPrefix(text, "broken\n") || !strings.Contains(text, "httpwire.panicHere") {
		t.Errorf("panic %v; want the value and the stack of the function", panicked)
	}
	if _, _, panicked := outcome(func() bool { panic(http.ErrAbortHandler) }); panicked != http.ErrAbortHandler {
		t.Errorf("panic %v; want http.ErrAbortHandler", panicked)
	}
	if _, returned, panicked := outcome(func() bool { runtime.Goexit(); return true }); returned || panicked != nil {
		t.Errorf("returned %v, panic %v; want runtime.Goexit", returned, panicked)
	}
}
