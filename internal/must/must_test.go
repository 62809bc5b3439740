package must_test

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/must"
)

// recorder is a test that records how it failed.
type recorder struct{ failed string }

func (r *recorder) Helper()        {}
func (r *recorder) Error(a ...any) { r.failed = "error: " + fmt.Sprint(a...) }
func (r *recorder) Fatal(a ...any) { r.failed = "fatal: " + fmt.Sprint(a...) }
func value(err error) (int, error) { return 1, err }

func TestFailuresAreReported(t *testing.T) {
	wrapped := fmt.Errorf("cannot read: %w", io.EOF)
	for want, f := range map[string]func(t must.T){
		"fatal: EOF":                       func(t must.T) { must.Get(value(io.EOF))(t) },
		"fatal: EOF ":                      func(t must.T) { must.Do(t, errors.New("EOF ")) },
		"fatal: x: EOF":                    func(t must.T) { must.Do(t, io.EOF, "x") },
		"error: EOF":                       func(t must.T) { must.Check(t, must.Err(value(io.EOF))) },
		"error: 7: EOF":                    func(t must.T) { must.Check(t, io.EOF, 7) },
		"fatal: got `<nil>`, want `c`":     func(t must.T) { must.Fails(t, nil, "c") },
		"fatal: x: got `EOF`, want `c`":    func(t must.T) { must.Fails(t, io.EOF, "c", "x") },
		"error: got `<nil>`, want ``":      func(t must.T) { must.CheckFails(t, nil, "") },
		"error: x: got `EOF`, want `c`":    func(t must.T) { must.CheckFails(t, io.EOF, "c", "x") },
		"fatal: got 1, want 2":             func(t must.T) { must.Equal(t, 1, 2) },
		"error: x: [y]: got `a`, want `b`": func(t must.T) { must.CheckEqual(t, "a", "b", []byte("x"), []string{"y"}) },
		"error: got\na\n\nwant\nb":         func(t must.T) { must.CheckEqual(t, "a\n", "b") },
		"fatal: got EOF, want closed pipe": func(t must.T) { must.Is(t, io.EOF, errors.New("closed pipe")) },
		"error: got EOF, want closed pipe": func(t must.T) { must.CheckIs(t, io.EOF, errors.New("closed pipe")) },
		"fatal: got `ab`, want `c`":        func(t must.T) { must.Contains(t, "ab", "c") },
		"error: got `ab`, want `c`":        func(t must.T) { must.CheckContains(t, "ab", "c") },
		"fatal: 1 of 2":                    func(t must.T) { must.That(t, 1 == 2, "%d of %d", 1, 2) },
		"error: 1 of 2":                    func(t must.T) { must.CheckThat(t, 1 == 2, "%d of %d", 1, 2) },
		"": func(t must.T) {
			must.That(t, 1 < 2, "%d of %d", 1, 2)
			must.CheckThat(t, 1 < 2, "%d of %d", 1, 2)
			must.Do(t, nil)
			must.Check(t, nil)
			must.Equal(t, must.Get(value(nil))(t), 1)
			must.CheckEqual(t, "a", "a")
			must.Fails(t, wrapped, "read")
			must.CheckFails(t, wrapped, "EOF")
			must.Is(t, wrapped, io.EOF)
			must.CheckIs(t, wrapped, io.EOF)
			must.Contains(t, "ab", "b")
			must.CheckContains(t, "ab", "b")
		},
	} {
		var r recorder
		if f(&r); r.failed != want {
			t.Errorf("got %s, want %s", r.failed, want)
		}
	}
}

// A value that does not arrive ends the test; a value that arrives in time does
// not.
func TestReceiveWaitsForAValueUpToItsBound(t *testing.T) {
	for after, want := range map[time.Duration]string{
		19 * time.Second: "", 21 * time.Second: "fatal: the answer is not done after 20 seconds",
	} {
		synctest.Test(t, func(t *testing.T) {
			c := make(chan int, 1)
			time.AfterFunc(after, func() { c <- 1 })
			var r recorder
			got := must.Receive(&r, c, "the answer")
			must.CheckEqual(t, r.failed, want)
			must.CheckEqual(t, got == 1, want == "")
		})
	}
}
