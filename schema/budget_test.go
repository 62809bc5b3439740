package schema

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"runtime"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

// hostileExpressions returns expressions that are short but take much memory or time to parse, compile
// or keep.
func hostileExpressions() map[string]string {
	long := func(part string) string { return strings.Repeat(part, 4000/len(part)) }
	return map[string]string{
		"classes":                     long(`\pL`),
		"classes of other characters": long(`\PL`),
		"classes of unassigned":       long(`\p{Cn}`),
		"classes in any case":         `(?i)` + long(`\p{Lu}`),
		"classes in a class":          `[` + long(`\pL`) + `]`,
		"negated classes":             long(`[^\pL]`),
		"alternatives of classes":     long(`\pL|`) + `a`,
		"repeated classes":            `^\pL{900}$`,
		"classes repeated some times": `^\pL{11}$`,
		"repeated groups of classes":  `^(?:\pL\pN\pS\pP){100}(?:\pC{10}){10}$`,
		"optional classes":            `^\pL{0,900}$`,
		"ranges in any case":          `(?i)` + long(`[B-𞥃]`),
		"ranges in one class":         `(?i)[` + long(`B-𞥃`) + `]`,
		"numeric ranges":              `(?i)` + long(`[\x42-\x{1e942}]`),
		"octal and numeric ranges":    `(?i)` + long(`[\102-\x{1e942}]`),
		"ranges after a bracket":      `(?i)` + long(`[]B-𞥃]`),
		"ranges after a named class":  `(?i)` + long(`[[:digit:]B-𞥃]`),
		"ranges in a group with flag": `(?s:(?U-s)(?mi:` + long(`[^B-𞥃]`) + `))`,
		"instructions":                strings.Repeat("(a{10}){99}", 300),
		"not supported at its end":    long(`\pL`) + `(?=`,
		"not supported in any case":   `(?i)` + long(`[B-𞥃]`) + `(?!`,
	}
}

// Each schema is at most a few hundred kilobytes long. Without bounds, it would take gigabytes, or
// minutes. Rule V4.
func TestExpressionsOfOneSchemaTakeBoundedMemory(t *testing.T) {
	for name, expression := range hostileExpressions() {
		copies := max(40, 10_000/len(expression))
		for keyword, format := range map[string]string{
			"pattern":           `{"anyOf":[` + repeated(copies, `{"pattern":EXPRESSION}`) + `]}`,
			"patternProperties": `{"patternProperties":{` + repeated(copies, `EXPRESSION:{}`) + `}}`,
		} {
			i := 0
			doc := []byte(replaceEach(format, "EXPRESSION", func() string {
				i++
				unique := fmt.Sprint(expression, i)
				if anchored, ok := strings.CutSuffix(expression, "$"); ok { // as a one-pass expression requires
					unique = fmt.Sprint(anchored, i, "$")
				}
				return string(appendQuoted(nil, unique))
			}))
			allocated, kept, s, err := memoryOf(func() (*Schema, error) { return Compile(doc) })
			must.CheckThat(t, err == nil || errors.Is(err, ErrLimit), "%s, %s: %v", name, keyword, err)
			must.CheckThat(t, allocated <= 64<<20 && kept <= 24<<20,
				"%s, %s: %d bytes of schema allocate %d MB and keep %d MB", name, keyword, len(doc), allocated>>20,
				kept>>20)
			runtime.KeepAlive(s)
		}
	}
}

func replaceEach(text, old string, with func() string) string {
	var b strings.Builder
	for i, part := range strings.Split(text, old) {
		if i > 0 {
			b.WriteString(with())
		}
		b.WriteString(part)
	}
	return b.String()
}

func memoryOf(compile func() (*Schema, error)) (allocated uint64, kept int64, s *Schema, err error) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s, err = compile()
	runtime.GC()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, int64(after.HeapAlloc) - int64(before.HeapAlloc), s, err
}

// The parser must not begin before its memory is paid for, because it can take seconds.
func TestParsingAnExpressionIsPaidForInAdvance(t *testing.T) {
	for name, expression := range hostileExpressions() {
		paid := parseMemory(expression) / bytesPerRune
		if strings.Contains(name, "any case") || strings.Contains(name, "range") {
			must.CheckThat(t, paid >= 1<<20, "%s: %d steps are paid for", name, paid)
			continue
		}
		tree, err := syntax.Parse(expression, syntax.Perl)
		if err != nil {
			continue
		}
		_, runes, _ := sizeOf(tree)
		must.CheckThat(t, runes <= paid, "%s: %d runes, and %d are paid for", name, runes, paid)
	}
}

// Expressions that people write are cheap, even case-insensitive ones.
func TestOrdinaryExpressionsAreCheap(t *testing.T) {
	for _, expression := range []string{
		`^[a-z0-9]+(-[a-z0-9]+)*$`,
		`(?i)^[a-z0-9._%+-]+@[a-z0-9.-]+\.[a-z]{2,}$`,
		`(?i)^[a-zà-ÿ' -]{1,80}$`,
		`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`,
		`(?i)\d+-\w+|[\w-]+`,
		`^(?P<year>\d{4})-(?<month>\d\d)$`,
	} {
		memory := &quota{most: 256 << 10}
		p := patterns{limit: 4 << 10, memory: memory}
		if err := p.add(expression); err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		compiled := must.Get(p.get(expression))(t)
		must.CheckThat(t, compiled.expression != nil, "%s: %v", expression, compiled)
	}
}

func TestNamesInEveryScriptAreMatched(t *testing.T) {
	const expression = `^[\p{L}\p{M}\p{N}\p{P}\p{Zs}]{1,255}$`
	s := compile(t, `{"pattern":`+string(appendQuoted(nil, expression))+`}`)
	if s.Unchecked() != nil {
		t.Error(s.Unchecked())
	}
	must.Do(t, s.Validate([]byte(`"Łukasz Ó Briain, 李 3"`)))
	must.CheckContains(t, fmt.Sprint(s.Validate([]byte(`"a\tb"`))), `expected string matching "^[\\p{L}`)
	must.CheckContains(t, fmt.Sprint(s.Validate([]byte(`"`+strings.Repeat("é", 256)+`"`))), "expected string matching")
}

func TestABudgetBoundsTheMemoryOfManySchemas(t *testing.T) {
	var b Budget
	document := func(i int) []byte {
		return []byte(`{"patternProperties":{` + repeated(40, `"^%d-\\pL{900}$":{}`) + `},"title":"` + fmt.Sprint(i) + `"}`)
	}
	var all []*Schema
	_, kept, _, err := memoryOf(func() (*Schema, error) {
		for i := range 1000 {
			s, err := b.Compile(document(i))
			if err != nil {
				return nil, err
			}
			all = append(all, s)
		}
		return nil, nil
	})
	must.CheckIs(t, err, ErrLimit)
	must.CheckContains(t, fmt.Sprint(err), "all schemas of one peer must be at most 67108864")
	must.CheckThat(t, len(all) >= 10 && kept <= maxBudget, "%d schemas with %d MB", len(all), kept>>20)
	// Schemas that are no longer used make room, but only once each.
	for _, s := range all[:5] {
		b.Release(s)
		b.Release(s)
	}
	b.Release(nil)
	b.Release(compile(t, `{}`))
	for i := range 5 {
		must.Get(b.Compile(document(i)))(t)
	}
	_, err = b.Compile(document(0))
	must.CheckIs(t, err, ErrLimit)
	runtime.KeepAlive(all)
}

// A schema that fails because of a bound has cost work, and a peer can send it again and again.
func TestSchemasThatExceedABoundUseUpABudget(t *testing.T) {
	var b Budget
	doc := []byte(`{"anyOf":[` + repeated(4000, `{"pattern":"%d\\pL\\pN\\pS"}`) + `]}`)
	for n := 0; ; n++ {
		must.That(t, n <= 10, "the budget allows it for ever: %d bytes are used", b.used.Load())
		_, err := b.Compile(doc)
		must.CheckIs(t, err, ErrLimit)
		if strings.Contains(err.Error(), "one peer") {
			break
		}
	}
	_, err := new(Budget).Compile([]byte(`{"type":5}`))
	must.CheckThat(t, !errors.Is(err, ErrLimit) && err != nil, "%v", err)
}

// edges counts the steps of checkCycles.
func edges(root *node) (n int) {
	seen := map[*node]bool{root: true}
	queue := []*node{root}
	for len(queue) > 0 {
		here := queue[0]
		queue = queue[1:]
		visit := func(m *node) {
			n++
			if !seen[m] {
				seen[m] = true
				queue = append(queue, m)
			}
		}
		here.inPlace(visit)
		here.children(visit)
	}
	return n
}

func TestDynamicReferencesCompileInLinearTime(t *testing.T) {
	for _, schema := range []string{
		`{"$defs":{` + repeated(2000, `"d%d":{"$id":"x%[1]d","$dynamicAnchor":"a","items":{"$dynamicRef":"#a"}}`) +
			`},"$ref":"x0"}`,
		`{"$schema":"https://json-schema.org/draft/2019-09/schema","$defs":{` +
			repeated(2000, `"d%d":{"$id":"x%[1]d","$recursiveAnchor":true,"items":{"$recursiveRef":"#"}}`) +
			`},"$ref":"x0"}`,
	} {
		n := edges(compile(t, schema).program)
		must.CheckThat(t, n >= 2000 && n <= 40_000, "%d steps for 2000 references: %.100s", n, schema)
	}
}

func TestKeywordsThatCannotBeCheckedAreListedUpToABound(t *testing.T) {
	s := compile(t, `{"patternProperties":{`+repeated(9_000, `"(?=%d)":false`)+`},"additionalProperties":false}`)
	must.CheckEqual(t, len(s.Unchecked()), maxUnchecked, "are listed")
	o := s.program.extra.plain.object
	must.CheckThat(t, len(o.patterns) == 0, "%d patterns are compared with each member, in vain", len(o.patterns))
	must.Do(t, s.Validate([]byte(`{`+repeated(10_000, `"%d":0`)+`}`)))
}
