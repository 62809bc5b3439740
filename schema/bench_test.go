package schema

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/must"
)

type echo struct {
	Text string `json:"text"`
}

// benchmarks returns schemas with instances that match them.
func benchmarks(tb testing.TB) []struct {
	name     string
	schema   *Schema
	instance []byte
	allocs   float64
} {
	inferred := must.Get(For[echo]())(tb)
	nested, err := For[struct {
		Name  string            `json:"name" minLength:"1" pattern:"^[a-z]+$"`
		Age   int               `json:"age" minimum:"0" maximum:"150"`
		Tags  []string          `json:"tags" enum:"a,b,c"`
		Home  address           `json:"home"`
		Attrs map[string]string `json:"attrs"`
		Since time.Time         `json:"since"`
	}]()
	must.Do(tb, err)
	return []struct {
		name     string
		schema   *Schema
		instance []byte
		allocs   float64
	}{
		{"one string", inferred, []byte(`{"text":"hello"}`), 0},
		{"long string", inferred, []byte(`{"text":"` + strings.Repeat("lorem ipsum ", 1<<20/12) + `"}`), 0},
		{"nested", nested,
			[]byte(`{"name":"ada","age":36,"tags":["a","c"],"home":{"street":"x","zip":"12345"},"attrs":{"k":"v",` +
				`"l":"w"},"since":"1815-12-10T00:00:00Z"}`), 0},
		{"fixture 2020-12", compile(tb, fixture2020),
			[]byte(`{"name":"a","contactMethod":"phone","phone":"1","address":{"street":"s"}}`), 0},
		{"thousand items", compile(tb,
			`{"items":{"type":"object","properties":{"id":{"type":"integer"},"ok":{"type":"boolean"}},`+
				`"required":["id"]}}`),
			[]byte(`[` + repeated(1000, `{"id":%d,"ok":true}`) + `]`), 0},
	}
}

func BenchmarkValidate(b *testing.B) {
	for _, bench := range benchmarks(b) {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(bench.instance)))
			for b.Loop() {
				must.Do(b, bench.schema.Validate(bench.instance))
			}
		})
	}
}

func BenchmarkValidateUnevaluated(b *testing.B) {
	s := compile(b,
		`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"unevaluatedProperties":false}`)
	b.ReportAllocs()
	for b.Loop() {
		must.Do(b, s.Validate([]byte(`{"text":"hello"}`)))
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, bench := range []struct {
		name string
		into func() any
		raw  string
	}{
		{"one string", func() any { return new(echo) }, `{"text":"hello"}`},
		{"defaults", func() any { return new(search) }, `{"query":"x"}`},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				must.Do(b, Decode([]byte(bench.raw), bench.into()))
			}
		})
	}
}

func BenchmarkMarshal(b *testing.B) {
	v := &echo{"hello"}
	b.ReportAllocs()
	for b.Loop() {
		must.Do(b, must.Err(Marshal(v)))
	}
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		must.Do(b, must.Err(Compile([]byte(fixture2020))))
	}
}

func TestValidatingDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		return // with the race detector, pools drop values at random
	}
	for _, bench := range benchmarks(t) {
		if got := testing.AllocsPerRun(100, func() {
			must.Do(t, bench.schema.Validate(bench.instance))
		}); got > bench.allocs {
			t.Errorf("%s: %v allocations, want %v", bench.name, got, bench.allocs)
		}
	}
}

func TestDecodingAllocatesOnlyTheResult(t *testing.T) {
	if raceEnabled {
		return
	}
	raw := []byte(`{"text":"hello"}`)
	var v echo
	if got := testing.AllocsPerRun(100, func() { must.Do(t, Decode(raw, &v)) }); got > 1 { // the string
		t.Errorf("%v allocations, want 1", got)
	}
	if got := testing.AllocsPerRun(100, func() { must.Get(Marshal(&v))(t) }); got > 1 { // the bytes
		t.Errorf("%v allocations, want 1", got)
	}
}

func ExampleSchema_JSON() {
	s, _ := For[echo]()
	fmt.Println(string(s.JSON()))
	// Output: {"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}
}

// BenchmarkSchemaDecode measures validation and decoding together.
func BenchmarkSchemaDecode(b *testing.B) {
	s := must.Get(For[echo]())(b)
	for _, size := range []int{10, 10_000} {
		raw := []byte(`{"text":"` + strings.Repeat("a", size) + `"}`)
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var v echo
				must.Do(b, s.Decode(raw, &v))
			}
		})
		b.Run(fmt.Sprint(size, "/separate"), func(b *testing.B) {
			b.ReportAllocs()
			shape := must.Get(shapeOf(reflect.TypeFor[echo]()))(b)
			for b.Loop() {
				var v echo
				must.That(b, s.Validate(raw) == nil && shape.decode(raw, &v) == nil, "invalid")
			}
		})
	}
}
