package must_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

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
		"error: EOF":                       func(t must.T) { must.Check(t, must.Err(value(io.EOF))) },
		"fatal: got 1, want 2":             func(t must.T) { must.Equal(t, 1, 2) },
		"error: x: [y]: got `a`, want `b`": func(t must.T) { must.CheckEqual(t, "a", "b", []byte("x"), []string{"y"}) },
		"error: got\na\n\nwant\nb":         func(t must.T) { must.CheckEqual(t, "a\n", "b") },
		"fatal: got EOF, want closed pipe": func(t must.T) { must.Is(t, io.EOF, errors.New("closed pipe")) },
		"error: got EOF, want closed pipe": func(t must.T) { must.CheckIs(t, io.EOF, errors.New("closed pipe")) },
		"fatal: got `ab`, want `c`":        func(t must.T) { must.Contains(t, "ab", "c") },
		"error: got `ab`, want `c`":        func(t must.T) { must.CheckContains(t, "ab", "c") },
		"": func(t must.T) {
			must.Do(t, nil)
			must.Check(t, nil)
			must.Equal(t, must.Get(value(nil))(t), 1)
			must.CheckEqual(t, "a", "a")
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
