//go:build integration

package schema

import (
	"encoding/json"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// installedSuite is the directory into which scripts/tools installs the official test suite.
const installedSuite = "../.tools/json-schema-test-suite"

// unsupported are the files of optional tests that do not apply.
var unsupported = map[string]bool{
	"optional/format/idn-hostname.json":  true, // the format is reported as unchecked
	"optional/ecmascript-regex.json":     true, // regular expressions have Go's syntax and classes
	"optional/content.json":              true, // contentEncoding and contentMediaType are annotations
	"optional/zeroTerminatedFloats.json": true, // 1.0 is an integer in every draft
}

func TestOfficialSuitePasses(t *testing.T) {
	suite := os.DirFS(installedSuite)
	for _, part := range []struct {
		name, files string
		least       int
	}{
		{"required", "*.json", 4800},
		{"optional", "optional/*.json", 250},
		{"formats", "optional/format/*.json", 1500},
	} {
		t.Run(part.name, func(t *testing.T) {
			n := runSuite(t, suite, part.files)
			if t.Logf("%d tests ran", n); n < part.least {
				t.Errorf("only %d tests ran, want %d at least", n, part.least)
			}
		})
	}
}

// suiteDirectories are the directories of the official test suite.
var suiteDirectories = map[string]draft{
	"draft4": draft4, "draft6": draft6, "draft7": draft7, "draft2019-09": draft2019, "draft2020-12": draft2020,
}

// suiteGroup is a schema of the suite with its tests.
type suiteGroup struct {
	Description string
	Schema      json.RawMessage
	Tests       []struct {
		Description string
		Data        json.RawMessage
		Valid       bool
	}
}

// runSuite runs the tests of the files that match a pattern in the directory of
// each draft, apart from those in unsupported, and returns their number.
func runSuite(t *testing.T, suite fs.FS, pattern string) (tests int) {
	t.Helper()
	for directory, d := range suiteDirectories {
		files, err := fs.Glob(suite, "tests/"+directory+"/"+pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no files %s: %v; scripts/tools installs the suite", directory, pattern, err)
		}
		for _, name := range files {
			if unsupported[strings.TrimPrefix(name, "tests/"+directory+"/")] {
				continue
			}
			raw, err := fs.ReadFile(suite, name)
			if err != nil {
				t.Fatal(err)
			}
			var groups []suiteGroup
			if err := json.Unmarshal(raw, &groups); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for _, group := range groups {
				tests += group.run(t, name, d)
			}
		}
	}
	return tests
}

func (g *suiteGroup) run(t *testing.T, file string, d draft) (tests int) {
	s, _, err := limits{}.compile(withDialect(t, g.Schema, d, strings.Contains(file, "/format/")), suiteDocuments(d))
	if err != nil {
		t.Errorf("%s: %s: %v", file, g.Description, err)
		return 0
	}
	for _, test := range g.Tests {
		tests++
		if err := s.Validate(test.Data); (err == nil) != test.Valid {
			t.Errorf("%s: %s: %s: got %v, want valid: %v\n%s", file, g.Description, test.Description, err, test.Valid,
				test.Data)
		}
	}
	return tests
}

// withDialect adds $schema to a schema that has none. With assertFormat it names,
// in the drafts in which formats are annotations, a dialect that asserts them.
func withDialect(t *testing.T, schema json.RawMessage, d draft, assertFormat bool) []byte {
	t.Helper()
	var members map[string]json.RawMessage
	if json.Unmarshal(schema, &members) != nil {
		return schema
	}
	uri := draftURIs[d]
	if assertFormat && d >= draft2019 {
		uri = "http://localhost:1234/asserting-format"
	} else if members["$schema"] != nil {
		return schema
	}
	members["$schema"], _ = json.Marshal(uri)
	raw, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// suiteDocuments returns the documents to which the schemas of the suite refer. They are ours, with the names and the
// meaning that the tests imply. Those that have no draft in their path are of draft d.
func suiteDocuments(d draft) func(uri string) []byte {
	return func(uri string) []byte {
		name, ok := strings.CutPrefix(uri, "http://localhost:1234/")
		if !ok {
			return nil
		}
		own, directory := d, ""
		for prefix, known := range suiteDirectories {
			if rest, ok := strings.CutPrefix(name, prefix+"/"); ok {
				own, directory, name = known, prefix+"/", rest
			}
		}
		text := suiteDocument(name, own, "http://localhost:1234/"+directory)
		if text == "" {
			return nil
		}
		replace := []string{"DIALECT", draftURIs[own], "VOCABULARY", own.vocabularyURI(), "META",
			strings.TrimSuffix(draftURIs[own], "schema") + "meta"}
		if own == draft4 {
			replace = append(replace, `"$id"`, `"id"`)
		}
		if own < draft2019 {
			replace = append(replace, "$defs", "definitions")
		}
		return []byte(strings.NewReplacer(replace...).Replace(text))
	}
}

func suiteDocument(name string, d draft, base string) string {
	anchor := func(name string) string {
		if d < draft2019 {
			return `"$id":"#` + name + `"`
		}
		return `"$anchor":"` + name + `"`
	}
	switch name {
	case "integer.json", "baseUriChange/folderInteger.json", "baseUriChangeFolder/folderInteger.json",
		"baseUriChangeFolderInSubschema/folderInteger.json":
		return `{"$schema":"DIALECT","type":"integer"}`
	case "nested/string.json":
		return `{"type":"string"}`
	case "nested/foo-ref-string.json":
		return `{"type":"object","properties":{"foo":{"$ref":"string.json"}}}`
	case "subSchemas.json":
		return `{"$defs":{"integer":{"type":"integer"},"refToInteger":{"$ref":"#/$defs/integer"}}}`
	case "locationIndependentIdentifier.json", "locationIndependentIdentifierDraft4.json",
		"locationIndependentIdentifierPre2019.json":
		return `{"$defs":{"refToInteger":{"$ref":"#foo"},"target":{` + anchor("foo") + `,"type":"integer"}}}`
	case "detached-ref.json":
		return `{"$id":"` + base + name + `","$defs":{"foo":{"$ref":"#detached"},"target":{` + anchor("detached") +
			`,"type":"integer"}}}`
	case "detached-dynamicref.json":
		return `{"$id":"` + base + name +
			`","$defs":{"foo":{"$dynamicRef":"#detached"},"target":{"$dynamicAnchor":"detached","type":"integer"}}}`
	case "name.json", "name-defs.json":
		return `{"type":"string","$defs":{"orNull":{"anyOf":[{"type":"null"},{"$ref":"#"}]}}}`
	case "ref-and-definitions.json", "ref-and-defs.json":
		return `{"$id":"` + base + name +
			`","allOf":[{"$ref":"#/$defs/inner"}],"$defs":{"inner":{"properties":{"bar":{"type":"string"}}}}}`
	case "nested-absolute-ref-to-string.json":
		return `{"$ref":"http://localhost:1234/the-nested-id.json",` +
			`"$defs":{"bar":{"$id":"http://localhost:1234/the-nested-id.json","type":"string"}}}`
	case "urn-ref-string.json":
		return `{"$id":"urn:uuid:feebdaed-ffff-0000-ffff-0000deadbeef","$ref":"#/$defs/bar",` +
			`"$defs":{"bar":{"type":"string"}}}`
	case "different-id-ref-string.json":
		return `{"$id":"http://localhost:1234/real-id-ref-string.json","$ref":"#/$defs/bar",` +
			`"$defs":{"bar":{"type":"string"}}}`
	case "extendible-dynamic-ref.json":
		return `{"$id":"` + base + name +
			`","properties":{"elements":{"type":"array","items":{"$dynamicRef":"#elements"}}},
			"required":["elements"],"additionalProperties":false,"$defs":{"any":{"$dynamicAnchor":"elements"}}}`
	case "tree.json":
		return `{"$id":"` + base + name + `","$dynamicAnchor":"node","type":"object",
			"properties":{"data":true,"children":{"type":"array","items":{"$dynamicRef":"#node"}}}}`
	case "prefixItems.json", "ignore-prefixItems.json":
		return `{"$schema":"DIALECT","prefixItems":[{"type":"string"}]}`
	case "dependentRequired.json", "ignore-dependentRequired.json":
		return `{"$schema":"DIALECT","dependentRequired":{"foo":["bar"]}}`
	case "metaschema-no-validation.json":
		return `{"$schema":"DIALECT","$vocabulary":{"VOCABULARYapplicator":true,"VOCABULARYcore":true},` +
			`"allOf":[{"$ref":"META/core"},{"$ref":"META/applicator"}]}`
	case "metaschema-optional-vocabulary.json":
		return `{"$schema":"DIALECT","$vocabulary":{"VOCABULARYvalidation":true,"VOCABULARYcore":true,` +
			`"http://localhost:1234/vocab/custom":false},"allOf":[{"$ref":"META/core"},{"$ref":"META/validation"}]}`
	case "format-assertion-false.json", "format-assertion-true.json":
		required := strings.TrimSuffix(strings.TrimPrefix(name, "format-assertion-"), ".json")
		return `{"$schema":"DIALECT","$vocabulary":{"VOCABULARYcore":true,"VOCABULARYformat-assertion":` + required +
			`}}`
	case "asserting-format":
		return `{"$schema":"DIALECT","$vocabulary":{"VOCABULARYcore":true,"VOCABULARYapplicator":true,` +
			`"VOCABULARYvalidation":true,"VOCABULARYformat":true,"VOCABULARYformat-assertion":true}}`
	}
	return ""
}
