package schema

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"io"
	"path"
	"strings"
	"testing"
)

// suiteDialects are the directories of the official test suite.
var suiteDialects = map[string]string{
	"draft4":       "http://json-schema.org/draft-04/schema#",
	"draft6":       "http://json-schema.org/draft-06/schema#",
	"draft7":       "http://json-schema.org/draft-07/schema#",
	"draft2019-09": "https://json-schema.org/draft/2019-09/schema",
	"draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}

// TestOfficialSuitePasses runs the official tests of each draft. The only groups
// that may be refused are those that need a second document.
func TestOfficialSuitePasses(t *testing.T) {
	archive, err := zip.OpenReader("testdata/json-schema-test-suite.zip")
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	run, refused := 0, 0
	for _, file := range archive.File {
		uri, ok := suiteDialects[path.Base(path.Dir(file.Name))]
		if !ok {
			continue
		}
		r, err := file.Open()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		var groups []struct {
			Description string
			Schema      json.RawMessage
			Tests       []struct {
				Description string
				Data        json.RawMessage
				Valid       bool
			}
		}
		if err := json.Unmarshal(raw, &groups); err != nil {
			t.Fatalf("%s: %v", file.Name, err)
		}
		for _, group := range groups {
			s, err := Compile(withDialect(t, group.Schema, uri))
			var ref *RefError
			var unknown *DialectError
			if errors.As(err, &ref) && !strings.HasPrefix(ref.Ref, "#") || errors.As(err, &unknown) {
				refused++
				continue
			}
			if err != nil {
				t.Errorf("%s: %s: %v", file.Name, group.Description, err)
				continue
			}
			for _, test := range group.Tests {
				run++
				if err := s.Validate(test.Data); (err == nil) != test.Valid {
					t.Errorf("%s: %s: %s: got %v, want valid: %v", file.Name, group.Description, test.Description, err, test.Valid)
				}
			}
		}
	}
	if run < 4700 || refused > 80 {
		t.Errorf("ran %d tests and refused %d groups", run, refused)
	}
}

// withDialect adds $schema to an object that has none.
func withDialect(t *testing.T, schema json.RawMessage, uri string) []byte {
	t.Helper()
	var members map[string]json.RawMessage
	if json.Unmarshal(schema, &members) != nil || members["$schema"] != nil {
		return schema
	}
	members["$schema"], _ = json.Marshal(uri)
	raw, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
