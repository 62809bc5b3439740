package client

import (
	"errors"
	"fmt"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/schema"
)

// Rule V4.
func TestOutputSchemasTakeBoundedMemory(t *testing.T) {
	large := func(n int) []byte {
		raw := []byte(`{"type":"object","patternProperties":{`)
		for i := range 40 {
			raw = fmt.Appendf(raw, `"^%d\\pL{900}$":{},`, n*100+i)
		}
		return append(raw, `"x":{}}}`...)
	}
	var o outputs
	use := func(tool string) error {
		known := o.of(tool)
		var err error
		known.once.Do(func() { known.compiled, err = known.memory.Compile(known.raw) })
		return err
	}
	n := 0
	var err error
	for ; err == nil; n++ {
		o.learn(fmt.Sprint("t", n), large(n))
		err = use(fmt.Sprint("t", n))
		must.That(t, n <= 60, "memory is not bounded")
	}
	must.CheckIs(t, err, schema.ErrLimit)
	// When a server changes its schemas, the old ones make room for the new
	// ones.
	for i := range 2 * n {
		o.learn("t0", large(n+i))
		must.Do(t, use("t0"), i)
	}
	o.learn("t0", nil)
	o.learn("t", []byte(`{"type":"object"}`))
	if err := use("t"); errors.Is(err, schema.ErrLimit) {
		t.Error(err)
	}
}
