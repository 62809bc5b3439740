// Package must checks the errors of what a test takes for granted, and compares what a test gets with what it wants.
// The functions whose names begin with Check fail the test and let it continue; the others end it, and must be called
// in the goroutine of the test. Only tests import the package.
package must

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
)

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

// Err returns the error of a function that also returns a value.
func Err[V any](_ V, err error) error { return err }

// Do ends the test if err is not nil. The message begins with the values of about.
func Do(t T, err error, about ...any) {
	t.Helper()
	if err != nil {
		t.Fatal(prefixed(err.Error(), about))
	}
}

// Check fails the test if err is not nil. The message begins with the values of about.
func Check(t T, err error, about ...any) {
	t.Helper()
	if err != nil {
		t.Error(prefixed(err.Error(), about))
	}
}

// Fails ends the test unless err is an error whose text contains part. The message begins with the values of about.
func Fails(t T, err error, part string, about ...any) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Fatal(message(fmt.Sprint(err), part, about))
	}
}

// CheckFails fails the test unless err is an error whose text contains part. The message begins with the values of
// about.
func CheckFails(t T, err error, part string, about ...any) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Error(message(fmt.Sprint(err), part, about))
	}
}

// Receive returns the next value from c. It ends the test if none arrives within 20 seconds; what names the
// sender.
func Receive[V any](t T, c <-chan V, what string) (v V) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(20 * time.Second):
		t.Fatal(what + " is not done after 20 seconds")
	}
	return v
}

// Equal ends the test if got is not want. The message begins with the values of about.
func Equal[V comparable](t T, got, want V, about ...any) {
	t.Helper()
	if got != want {
		t.Fatal(message(got, want, about))
	}
}

// CheckEqual fails the test if got is not want. The message begins with the values of about.
func CheckEqual[V comparable](t T, got, want V, about ...any) {
	t.Helper()
	if got != want {
		t.Error(message(got, want, about))
	}
}

// Is ends the test if [errors.Is] does not find want in err.
func Is(t T, err, want error, about ...any) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatal(message(err, want, about))
	}
}

// CheckIs fails the test if [errors.Is] does not find want in err.
func CheckIs(t T, err, want error, about ...any) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Error(message(err, want, about))
	}
}

// Contains ends the test if text does not contain part.
func Contains(t T, text, part string, about ...any) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Fatal(message(text, part, about))
	}
}

// CheckContains fails the test if text does not contain part.
func CheckContains(t T, text, part string, about ...any) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Error(message(text, part, about))
	}
}

// That ends the test with this message unless ok.
func That(t T, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Fatal(fmt.Sprintf(format, args...))
	}
}

// CheckThat fails the test with this message unless ok.
func CheckThat(t T, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Error(fmt.Sprintf(format, args...))
	}
}

func message(got, want any, about []any) string {
	format := "got %+v, want %+v"
	if v := reflect.ValueOf(got); v.Kind() == reflect.String {
		if format = "got %#q, want %#q"; strings.Contains(v.String(), "\n") {
			format = "got\n%s\nwant\n%s"
		}
	}
	return prefixed(fmt.Sprintf(format, got, want), about)
}

func prefixed(text string, about []any) string {
	for i := len(about) - 1; i >= 0; i-- {
		if v := reflect.ValueOf(about[i]); v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
			about[i] = string(v.Bytes())
		}
		text = fmt.Sprintf("%+v: %s", about[i], text)
	}
	return text
}
