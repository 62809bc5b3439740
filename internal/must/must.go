// Package must checks the errors of what a test takes for granted. Only tests import it.
package must

// A T is a test: a testing.TB, or a test of another package.
type T interface {
	Helper()
	Error(...any)
	Fatal(...any)
}

// Get returns v with a function that ends the test if err is not nil:
//
//	c := must.Get(d.Dial(ctx, target))(t)
func Get[V any](v V, err error) func(t T) V {
	return func(t T) V {
		t.Helper()
		Do(t, err)
		return v
	}
}

// Do ends the test if err is not nil. It must be called in the goroutine of the test.
func Do(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Check fails the test if err is not nil, and lets it go on.
func Check(t T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}
