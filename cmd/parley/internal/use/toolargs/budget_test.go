package toolargs

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

// repeat returns n elements of an array or an object with their numbers.
func repeat(n int, format string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = strings.ReplaceAll(format, "%", fmt.Sprint(i))
	}
	return strings.Join(all, ",")
}

// hostile are schemas of a few hundred kilobytes. Reading each of them without a budget takes seconds.
func hostile() map[string]string {
	const n = 9000
	return map[string]string{
		"properties": `{"properties":{` + repeat(n, `"p%":{"type":"string"}`) + `},"required":[` + repeat(n, `"p%"`) + `]}`,
		"long names": `{"properties":{` + repeat(n, `"`+strings.Repeat("x", 200)+`%":{}`) + `}}`,
		"one long name": `{"properties":{"` + strings.Repeat("x", 500_000) + `":{}},"required":["` +
			strings.Repeat("x", 500_000) + `"]}`,
		"allOf of objects": `{"allOf":[` + repeat(3000, `{"properties":{"p%":{"type":"string"}},"required":["p%"]}`) + `]}`,
		"anyOf of objects": `{"anyOf":[` + repeat(3000, `{"properties":{"p%":{"type":"string"}}}`) + `],"required":[` +
			repeat(n, `"p%"`) + `]}`,
		"required in branches": `{"anyOf":[` + strings.Repeat(`{"required":[`+repeat(3000, `"p%"`)+`]},`, 40) + `{}]}`,
		"enums":                `{"properties":{"a":{"allOf":[` + strings.Repeat(`{"enum":[`+repeat(20_000, `"%"`)+`]},`, 3) + `{}]}}}`,
		"types": `{"properties":{"a":{"allOf":[{"type":[` + repeat(20_000, `"a%"`) + `]},{"type":[` +
			repeat(20_000, `"b%"`) + `]}]}}}`,
		"references": `{"properties":{"a":{"$ref":"#/$defs/0"}},"$defs":{` +
			repeat(n, `"%":{"allOf":[{"$ref":"#/$defs/%0"},{"$ref":"#/$defs/%1"},{"$ref":"#/$defs/1"}]}`) + `}}`,
		"deep references": `{"properties":{"a":{"$ref":"` + strings.Repeat("#/properties/a", 1) +
			strings.Repeat("/x", 100_000) + `"}}}`,
	}
}

func TestReadingASchemaOfAPeerIsBounded(t *testing.T) {
	for name, text := range hostile() {
		raw := json.RawMessage(text)
		n := parseSchema(raw, "argument")
		all := n.arguments()
		must.CheckThat(t, n.doc.left >= -(1<<20)-len(text), "%s: %d steps beyond the budget", name, -n.doc.left)
		must.CheckThat(t, name != "properties" || len(all) == 9000 && all[8999].Required && all[8999].Type == "string",
			"%s: %d arguments", name, len(all))
		// Each of them reads the schema again.
		_, err := Parse(raw, []string{"p1=x", "a=1", "q:=2"})
		texts := []string{Summary(raw), fmt.Sprint(err)}
		for _, err := range Undefined(raw, json.RawMessage(`{"q":1}`)) {
			texts = append(texts, err.Error())
		}
		_, err = ParseFields(raw, []string{"zzz=1"})
		for _, text := range append(texts, fmt.Sprint(err)) {
			must.CheckThat(t, len(text) <= 3*maxSummary, "%s: a text of %d bytes: %.200s", name, len(text), text)
		}
		_ = Example(raw)
	}
}

func TestASummaryOfManyArgumentsEndsWithTheirNumber(t *testing.T) {
	got := Summary(json.RawMessage(hostile()["properties"]))
	must.CheckThat(t, strings.HasPrefix(got, "p0=string p1=string ") &&
		strings.HasSuffix(got, "=string … and 8908 more"), "got %s", got)
}
