package schema

// metaschema2019 returns a document of the meta-schema of draft 2019-09, without
// its annotations.
func metaschema2019(name string) string {
	switch name {
	case "schema":
		return `{"$schema":"https://json-schema.org/draft/2019-09/schema",
"$id":"https://json-schema.org/draft/2019-09/schema",
"$vocabulary":{
	"https://json-schema.org/draft/2019-09/vocab/core":true,
	"https://json-schema.org/draft/2019-09/vocab/applicator":true,
	"https://json-schema.org/draft/2019-09/vocab/validation":true,
	"https://json-schema.org/draft/2019-09/vocab/meta-data":true,
	"https://json-schema.org/draft/2019-09/vocab/format":false,
	"https://json-schema.org/draft/2019-09/vocab/content":true},
"$recursiveAnchor":true,
"allOf":[{"$ref":"meta/core"},{"$ref":"meta/applicator"},{"$ref":"meta/validation"},{"$ref":"meta/meta-data"},{"$ref":"meta/format"},{"$ref":"meta/content"}],
"type":["object","boolean"],
"properties":{
	"definitions":{"type":"object","additionalProperties":{"$recursiveRef":"#"}},
	"dependencies":{"type":"object","additionalProperties":{"anyOf":[{"$recursiveRef":"#"},{"$ref":"meta/validation#/$defs/stringArray"}]}}}}`
	case "meta/core":
		return `{"$schema":"https://json-schema.org/draft/2019-09/schema",
"$id":"https://json-schema.org/draft/2019-09/meta/core",
"$vocabulary":{
	"https://json-schema.org/draft/2019-09/vocab/core":true},
"$recursiveAnchor":true,
"type":["object","boolean"],
"properties":{
	"$id":{"type":"string","format":"uri-reference","pattern":"^[^#]*#?$"},
	"$schema":{"type":"string","format":"uri"},
	"$anchor":{"type":"string","pattern":"^[A-Za-z][-A-Za-z0-9.:_]*$"},
	"$ref":{"type":"string","format":"uri-reference"},
	"$recursiveRef":{"type":"string","format":"uri-reference"},
	"$recursiveAnchor":{"type":"boolean"},
	"$vocabulary":{"type":"object","propertyNames":{"type":"string","format":"uri"},"additionalProperties":{"type":"boolean"}},
	"$comment":{"type":"string"},
	"$defs":{"type":"object","additionalProperties":{"$recursiveRef":"#"}}}}`
	case "meta/applicator":
		return `{"$schema":"https://json-schema.org/draft/2019-09/schema",
"$id":"https://json-schema.org/draft/2019-09/meta/applicator",
"$vocabulary":{
	"https://json-schema.org/draft/2019-09/vocab/applicator":true},
"$recursiveAnchor":true,
"type":["object","boolean"],
"properties":{
	"additionalItems":{"$recursiveRef":"#"},
	"unevaluatedItems":{"$recursiveRef":"#"},
	"items":{"anyOf":[{"$recursiveRef":"#"},{"$ref":"#/$defs/schemaArray"}]},
	"contains":{"$recursiveRef":"#"},
	"additionalProperties":{"$recursiveRef":"#"},
	"unevaluatedProperties":{"$recursiveRef":"#"},
	"properties":{"type":"object","additionalProperties":{"$recursiveRef":"#"}},
	"patternProperties":{"type":"object","additionalProperties":{"$recursiveRef":"#"},"propertyNames":{"format":"regex"}},
	"dependentSchemas":{"type":"object","additionalProperties":{"$recursiveRef":"#"}},
	"propertyNames":{"$recursiveRef":"#"},
	"if":{"$recursiveRef":"#"},
	"then":{"$recursiveRef":"#"},
	"else":{"$recursiveRef":"#"},
	"allOf":{"$ref":"#/$defs/schemaArray"},
	"anyOf":{"$ref":"#/$defs/schemaArray"},
	"oneOf":{"$ref":"#/$defs/schemaArray"},
	"not":{"$recursiveRef":"#"}},
"$defs":{
	"schemaArray":{"type":"array","minItems":1,"items":{"$recursiveRef":"#"}}}}`
	case "meta/validation":
		return `{"$schema":"https://json-schema.org/draft/2019-09/schema",
"$id":"https://json-schema.org/draft/2019-09/meta/validation",
"$vocabulary":{
	"https://json-schema.org/draft/2019-09/vocab/validation":true},
"$recursiveAnchor":true,
"type":["object","boolean"],
"properties":{
	"multipleOf":{"type":"number","exclusiveMinimum":0},
	"maximum":{"type":"number"},
	"exclusiveMaximum":{"type":"number"},
	"minimum":{"type":"number"},
	"exclusiveMinimum":{"type":"number"},
	"maxLength":{"$ref":"#/$defs/nonNegativeInteger"},
	"minLength":{"$ref":"#/$defs/nonNegativeIntegerDefault0"},
	"pattern":{"type":"string","format":"regex"},
	"maxItems":{"$ref":"#/$defs/nonNegativeInteger"},
	"minItems":{"$ref":"#/$defs/nonNegativeIntegerDefault0"},
	"uniqueItems":{"type":"boolean"},
	"maxContains":{"$ref":"#/$defs/nonNegativeInteger"},
	"minContains":{"$ref":"#/$defs/nonNegativeInteger"},
	"maxProperties":{"$ref":"#/$defs/nonNegativeInteger"},
	"minProperties":{"$ref":"#/$defs/nonNegativeIntegerDefault0"},
	"required":{"$ref":"#/$defs/stringArray"},
	"dependentRequired":{"type":"object","additionalProperties":{"$ref":"#/$defs/stringArray"}},
	"const":true,
	"enum":{"type":"array","items":true},
	"type":{"anyOf":[{"$ref":"#/$defs/simpleTypes"},{"type":"array","items":{"$ref":"#/$defs/simpleTypes"},"minItems":1,"uniqueItems":true}]}},
"$defs":{
	"nonNegativeInteger":{"type":"integer","minimum":0},
	"nonNegativeIntegerDefault0":{"$ref":"#/$defs/nonNegativeInteger"},
	"simpleTypes":{"enum":["array","boolean","integer","null","number","object","string"]},
	"stringArray":{"type":"array","items":{"type":"string"},"uniqueItems":true}}}`
	case "meta/meta-data":
		return `{"$schema":"https://json-schema.org/draft/2019-09/schema",
"$id":"https://json-schema.org/draft/2019-09/meta/meta-data",
"$vocabulary":{
	"https://json-schema.org/draft/2019-09/vocab/meta-data":true},
"$recursiveAnchor":true,
"type":["object","boolean"],
"properties":{
	"title":{"type":"string"},
	"description":{"type":"string"},
	"default":true,
	"deprecated":{"type":"boolean"},
	"readOnly":{"type":"boolean"},
	"writeOnly":{"type":"boolean"},
	"examples":{"type":"array","items":true}}}`
	case "meta/format":
		return `{"$schema":"https://json-schema.org/draft/2019-09/schema",
"$id":"https://json-schema.org/draft/2019-09/meta/format",
"$vocabulary":{
	"https://json-schema.org/draft/2019-09/vocab/format":true},
"$recursiveAnchor":true,
"type":["object","boolean"],
"properties":{
	"format":{"type":"string"}}}`
	case "meta/content":
		return `{"$schema":"https://json-schema.org/draft/2019-09/schema",
"$id":"https://json-schema.org/draft/2019-09/meta/content",
"$vocabulary":{
	"https://json-schema.org/draft/2019-09/vocab/content":true},
"$recursiveAnchor":true,
"type":["object","boolean"],
"properties":{
	"contentMediaType":{"type":"string"},
	"contentEncoding":{"type":"string"},
	"contentSchema":{"$recursiveRef":"#"}}}`
	}
	return ""
}
