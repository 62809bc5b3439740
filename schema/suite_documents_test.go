//go:build integration

package schema

import "strings"

// suiteDocuments returns the documents to which the schemas of the suite refer.
// They are ours, with the names and the meaning that the tests imply. Those that
// have no draft in their path are of draft d.
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
		replace := []string{"DIALECT", draftURIs[own], "VOCABULARY", own.vocabularyURI(), "META", strings.TrimSuffix(draftURIs[own], "schema") + "meta"}
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
	case "integer.json", "baseUriChange/folderInteger.json", "baseUriChangeFolder/folderInteger.json", "baseUriChangeFolderInSubschema/folderInteger.json":
		return `{"$schema":"DIALECT","type":"integer"}`
	case "nested/string.json":
		return `{"type":"string"}`
	case "nested/foo-ref-string.json":
		return `{"type":"object","properties":{"foo":{"$ref":"string.json"}}}`
	case "subSchemas.json":
		return `{"$defs":{"integer":{"type":"integer"},"refToInteger":{"$ref":"#/$defs/integer"}}}`
	case "locationIndependentIdentifier.json", "locationIndependentIdentifierDraft4.json", "locationIndependentIdentifierPre2019.json":
		return `{"$defs":{"refToInteger":{"$ref":"#foo"},"target":{` + anchor("foo") + `,"type":"integer"}}}`
	case "detached-ref.json":
		return `{"$id":"` + base + name + `","$defs":{"foo":{"$ref":"#detached"},"target":{` + anchor("detached") + `,"type":"integer"}}}`
	case "detached-dynamicref.json":
		return `{"$id":"` + base + name + `","$defs":{"foo":{"$dynamicRef":"#detached"},"target":{"$dynamicAnchor":"detached","type":"integer"}}}`
	case "name.json", "name-defs.json":
		return `{"type":"string","$defs":{"orNull":{"anyOf":[{"type":"null"},{"$ref":"#"}]}}}`
	case "ref-and-definitions.json", "ref-and-defs.json":
		return `{"$id":"` + base + name + `","allOf":[{"$ref":"#/$defs/inner"}],"$defs":{"inner":{"properties":{"bar":{"type":"string"}}}}}`
	case "nested-absolute-ref-to-string.json":
		return `{"$ref":"http://localhost:1234/the-nested-id.json","$defs":{"bar":{"$id":"http://localhost:1234/the-nested-id.json","type":"string"}}}`
	case "urn-ref-string.json":
		return `{"$id":"urn:uuid:feebdaed-ffff-0000-ffff-0000deadbeef","$ref":"#/$defs/bar","$defs":{"bar":{"type":"string"}}}`
	case "different-id-ref-string.json":
		return `{"$id":"http://localhost:1234/real-id-ref-string.json","$ref":"#/$defs/bar","$defs":{"bar":{"type":"string"}}}`
	case "extendible-dynamic-ref.json":
		return `{"$id":"` + base + name + `","properties":{"elements":{"type":"array","items":{"$dynamicRef":"#elements"}}},
			"required":["elements"],"additionalProperties":false,"$defs":{"any":{"$dynamicAnchor":"elements"}}}`
	case "tree.json":
		return `{"$id":"` + base + name + `","$dynamicAnchor":"node","type":"object",
			"properties":{"data":true,"children":{"type":"array","items":{"$dynamicRef":"#node"}}}}`
	case "prefixItems.json", "ignore-prefixItems.json":
		return `{"$schema":"DIALECT","prefixItems":[{"type":"string"}]}`
	case "dependentRequired.json", "ignore-dependentRequired.json":
		return `{"$schema":"DIALECT","dependentRequired":{"foo":["bar"]}}`
	case "metaschema-no-validation.json":
		return `{"$schema":"DIALECT","$vocabulary":{"VOCABULARYapplicator":true,"VOCABULARYcore":true},"allOf":[{"$ref":"META/core"},{"$ref":"META/applicator"}]}`
	case "metaschema-optional-vocabulary.json":
		return `{"$schema":"DIALECT","$vocabulary":{"VOCABULARYvalidation":true,"VOCABULARYcore":true,"http://localhost:1234/vocab/custom":false},"allOf":[{"$ref":"META/core"},{"$ref":"META/validation"}]}`
	case "format-assertion-false.json", "format-assertion-true.json":
		required := strings.TrimSuffix(strings.TrimPrefix(name, "format-assertion-"), ".json")
		return `{"$schema":"DIALECT","$vocabulary":{"VOCABULARYcore":true,"VOCABULARYformat-assertion":` + required + `}}`
	case "asserting-format":
		return `{"$schema":"DIALECT","$vocabulary":{"VOCABULARYcore":true,"VOCABULARYapplicator":true,"VOCABULARYvalidation":true,"VOCABULARYformat":true,"VOCABULARYformat-assertion":true}}`
	}
	return ""
}
