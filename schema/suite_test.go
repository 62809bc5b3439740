//go:build integration

package schema

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

// installedSuite is the directory where scripts/tools installs the official test suite.
const installedSuite = "../.tools/json-schema-test-suite"

// unsupported lists the files of optional tests that do not apply.
var unsupported = map[string]bool{
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
		{"required", "*.json", 4750},
		{"optional", "optional/*.json", 250},
	} {
		t.Run(part.name, func(t *testing.T) {
			n := runSuite(t, suite, part.files)
			if t.Logf("%d tests ran", n); n < part.least {
				t.Errorf("only %d tests ran, want %d at least", n, part.least)
			}
		})
	}
}

// suiteDirectories contains the directories of the official test suite.
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
// each draft, apart from those in unsupported, and returns the number of tests.
func runSuite(t *testing.T, suite fs.FS, pattern string) (tests int) {
	t.Helper()
	for directory, d := range suiteDirectories {
		files, err := fs.Glob(suite, "tests/"+directory+"/"+pattern)
		must.That(t, err == nil && len(files) != 0,
			"%s: no files %s: %v; scripts/tools installs the suite", directory, pattern, err)
		for _, name := range files {
			if unsupported[strings.TrimPrefix(name, "tests/"+directory+"/")] {
				continue
			}
			raw := must.Get(fs.ReadFile(suite, name))(t)
			var groups []suiteGroup
			must.Do(t, json.Unmarshal(raw, &groups), name)
			for _, group := range groups {
				tests += group.run(t, name, d)
			}
		}
	}
	return tests
}

// run runs the tests of the group. It runs none if the schema refers to a meta-schema or its $schema is not
// official, because this package knows no document other than the schema itself.
func (g *suiteGroup) run(t *testing.T, file string, d draft) (tests int) {
	s, err := Compile(bundle(t, g.Schema, d))
	var outside *RefError
	var dialect *dialectError
	switch {
	case errors.As(err, &outside) && strings.Contains(outside.Ref, "//json-schema.org/"), errors.As(err, &dialect):
		return 0
	case err != nil:
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

// suiteBase is the prefix of the URIs of the documents that the schemas of the suite refer to.
const suiteBase = "http://localhost:1234/"

// bundle adds $schema to a schema that has none, and puts the documents that it refers to into its
// definitions.
func bundle(t *testing.T, schema json.RawMessage, d draft) []byte {
	t.Helper()
	var members map[string]any
	if json.Unmarshal(schema, &members) != nil {
		return schema // a boolean
	}
	if members["$schema"] == nil {
		members["$schema"] = draftURIs[d]
	}
	definitions := "$defs"
	if d < draft2019 {
		definitions = "definitions"
	}
	documents, _ := members[definitions].(map[string]any)
	if documents == nil {
		documents = make(map[string]any)
		members[definitions] = documents
	}
	text := string(schema)
	addDocuments(t, documents, text, "", d, func(name string) bool {
		return d < draft2019 || strings.Contains(text, suiteBase+name)
	})
	for directory, own := range suiteDirectories {
		addDocuments(t, documents, text, directory+"/", own, func(string) bool {
			return strings.Contains(text, suiteBase+directory+"/")
		})
	}
	raw := must.Get(json.Marshal(members))(t)
	return raw
}

// addDocuments adds the documents of a directory that a text names, and the documents that these refer to.
func addDocuments(t *testing.T, to map[string]any, text, directory string, d draft, may func(name string) bool) {
	t.Helper()
	for _, name := range suiteNames {
		uri, document := suiteBase+directory+name, suiteDocument(name, d, suiteBase+directory)
		if to[uri] != nil || !may(name) || !strings.Contains(text, path.Base(name)) {
			continue
		}
		replace, id := []string{"DIALECT", draftURIs[d]}, "$id"
		if d == draft4 {
			replace, id = append(replace, `"$id"`, `"id"`), "id"
		}
		if d < draft2019 {
			replace = append(replace, "$defs", "definitions")
		}
		document = strings.NewReplacer(replace...).Replace(document)
		var members map[string]any
		must.Do(t, json.Unmarshal([]byte(document), &members))
		to[uri] = members
		switch own := members[id]; own {
		case nil:
			members[id] = uri
		case uri:
		default:
			to[uri+" itself"] = members
			to[uri] = map[string]any{id: uri, "allOf": []any{map[string]any{"$ref": own}}}
		}
		addDocuments(t, to, document, directory, d, func(string) bool { return true })
	}
}

// suiteNames lists the documents that suiteDocument returns. We wrote them, with the names and the meaning that the
// tests imply.
var suiteNames = []string{
	"integer.json", "baseUriChange/folderInteger.json", "baseUriChangeFolder/folderInteger.json",
	"baseUriChangeFolderInSubschema/folderInteger.json", "nested/string.json", "nested/foo-ref-string.json",
	"subSchemas.json", "locationIndependentIdentifier.json", "locationIndependentIdentifierDraft4.json",
	"locationIndependentIdentifierPre2019.json", "detached-ref.json", "detached-dynamicref.json", "name.json",
	"name-defs.json", "ref-and-definitions.json", "ref-and-defs.json", "nested-absolute-ref-to-string.json",
	"urn-ref-string.json", "different-id-ref-string.json", "extendible-dynamic-ref.json", "tree.json",
	"prefixItems.json", "ignore-prefixItems.json", "dependentRequired.json", "ignore-dependentRequired.json",
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
	}
	return ""
}
