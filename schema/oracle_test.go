package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/parley-mcp/parley/internal/must"
)

// noDocuments is a loader of the oracle that loads nothing.
type noDocuments struct{}

func (noDocuments) Load(uri string) (any, error) {
	return nil, errors.New("there is no document " + uri)
}

// oracle compiles a schema with another library, configured to behave like ours.
func oracle(schema []byte) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noDocuments{})
	for _, format := range []string{"date", "date-time", "email", "regex", "uri", "uri-reference"} {
		c.RegisterFormat(&jsonschema.Format{Name: format, Validate: func(any) error { return nil }})
	}
	if err := c.AddResource(rootURI, doc); err != nil {
		return nil, err
	}
	return c.Compile(rootURI)
}

func TestVerdictsAgreeWithTheOracle(t *testing.T) {
	for _, test := range probes {
		s, err := Compile([]byte(test.schema))
		if err != nil {
			t.Errorf("Compile(%s): %v", test.schema, err)
			continue
		}
		want, err := oracle([]byte(test.schema))
		if err != nil {
			t.Errorf("the oracle rejects %s: %v", test.schema, err)
			continue
		}
		for _, instance := range test.instances {
			compare(t, test.schema, s, want, instance)
		}
	}
}

// compare compares the verdict of s with the oracle's.
func compare(t testing.TB, schema string, s *Schema, want *jsonschema.Schema, instance string) {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(instance))
	must.Do(t, err, instance)
	got := s.Validate([]byte(instance))
	if errors.Is(got, ErrLimit) {
		t.Logf("%s: %v", schema, got)
		return
	}
	if valid := want.Validate(value); (got == nil) != (valid == nil) {
		t.Errorf("schema %s\ninstance %s\ngot %v\noracle %v", schema, instance, got, valid)
	}
	var issues *ValidationError
	if got != nil && (!errors.As(got, &issues) || len(issues.Issues) == 0 || len(issues.Issues) > maxIssues) {
		t.Errorf("schema %s, instance %s: %#v must contain one to eight issues", schema, instance, got)
	}
}

// FuzzSchemaCompileValidate compares verdicts on schemas and instances that are random
// text. See agreeOnRandomSchema for the differences that are intended.
func FuzzSchemaCompileValidate(f *testing.F) {
	for _, test := range probes {
		for _, instance := range test.instances {
			f.Add(test.schema, instance)
		}
	}
	limits := limits{MaxTime: time.Second}
	f.Fuzz(func(t *testing.T, schema, instance string) {
		if len(schema) > 4096 || len(instance) > 4096 || hasHugeNumber(schema) || hasHugeNumber(instance) {
			return // the oracle takes minutes, or panics
		}
		if strings.Contains(schema, "format") || strings.Contains(schema, "$recursiveRef") {
			return // intended differences
		}
		s, err := limits.Compile([]byte(schema))
		if err != nil {
			return
		}
		if !jsontext.Value(instance).IsValid() {
			must.That(t, s.Validate([]byte(instance)) != nil, "%q is not strict JSON, but passes %s", instance, schema)
			return
		}
		want, err := oracle([]byte(schema))
		if err != nil {
			return
		}
		compare(t, schema, s, want, instance)
	})
}

// hasHugeNumber reports whether a document contains a number that the oracle
// cannot handle.
func hasHugeNumber(doc string) bool {
	decoder := json.NewDecoder(strings.NewReader(doc))
	decoder.UseNumber()
	for {
		token, err := decoder.Token()
		if err != nil {
			return false
		}
		if n, ok := token.(json.Number); ok {
			d := parseDecimal([]byte(n))
			if d.point > 500 || d.point < -500 || len(n) > 500 {
				return true
			}
		}
	}
}
