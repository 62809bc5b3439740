package spec

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/yosida95/uritemplate/v3"

	"github.com/parley-mcp/parley/mcp"
)

// Validate returns an error if raw is not valid JSON for a definition in the schema of rev. Duplicate keys, invalid
// UTF-8 and strings that do not have the format of the schema (uri, uri-template, byte) are errors. Unknown keys are
// errors only if the schema forbids them.
//
// Two definitions accept more than the schemas say: the schemas are generated from TypeScript, and the generator makes
// every number an integer. The content of ElicitResult and JSONValue accept any number, and JSONValue accepts null.
func Validate(rev mcp.Revision, definition string, raw []byte) error {
	schema, ok := compiled(rev)[definition]
	if !ok {
		return fmt.Errorf("schema of %s does not define %s", rev, definition)
	}
	if !jsontext.Value(raw).IsValid() {
		return fmt.Errorf("message must be strict JSON: %s", raw)
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("%w: %s", err, raw)
	}
	if err := schema.Validate(instance); err != nil {
		return fmt.Errorf("%s of %s is invalid: %w\n%s", definition, rev, err, raw)
	}
	return nil
}

// compiled returns the compiled definitions of rev by name.
func compiled(rev mcp.Revision) map[string]*jsonschema.Schema {
	compile, ok := compilers[rev]
	if !ok {
		panic(fmt.Sprintf("unknown revision %q", rev))
	}
	return compile()
}

// compilers compile each schema on first use.
var compilers = oncePerSchema(compile)

// oncePerSchema returns a function for each schema that calls build on first use.
func oncePerSchema[T any](build func(mcp.Revision) T) map[mcp.Revision]func() T {
	once := map[mcp.Revision]func() T{}
	for _, rev := range append(mcp.Revisions(), Tasks) {
		once[rev] = sync.OnceValue(func() T { return build(rev) })
	}
	return once
}

func compile(rev mcp.Revision) map[string]*jsonschema.Schema {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema(rev)))
	if err != nil {
		panic(fmt.Sprintf("schema of %s: %v", rev, err))
	}
	section := "definitions"
	if _, ok := doc.(map[string]any)["$defs"]; ok {
		section = "$defs"
	}
	definitions := doc.(map[string]any)[section].(map[string]any)
	for _, name := range []string{"ElicitResult", "JSONValue"} {
		widen(definitions[name], name == "JSONValue")
	}

	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(jsonschema.SchemeURLLoader{}) // rejects references to other schemas
	compiler.AssertFormat()
	compiler.RegisterFormat(&jsonschema.Format{Name: "byte", Validate: validateBase64})
	// The format of the validator rejects issue://{number}.
	compiler.RegisterFormat(&jsonschema.Format{Name: "uri-template", Validate: validateTemplate})
	url := "spec:///" + string(rev)
	if err := compiler.AddResource(url, doc); err != nil {
		panic(fmt.Sprintf("schema of %s: %v", rev, err))
	}
	schemas := make(map[string]*jsonschema.Schema, len(definitions))
	for name := range definitions {
		schema, err := compiler.Compile(url + "#/" + section + "/" + name)
		if err != nil {
			panic(fmt.Sprintf("schema of %s: %s: %v", rev, name, err))
		}
		schemas[name] = schema
	}
	return schemas
}

// widen adds number, and null if null is set, to each list of types in schema.
func widen(schema any, null bool) {
	switch schema := schema.(type) {
	case []any:
		for _, s := range schema {
			widen(s, null)
		}
	case map[string]any:
		for keyword, value := range schema {
			types, ok := value.([]any)
			if keyword != "type" || !ok {
				widen(value, null)
				continue
			}
			types = append(types, "number")
			if null {
				types = append(types, "null")
			}
			schema[keyword] = types
		}
	}
}

func validateBase64(v any) error {
	s, ok := v.(string)
	if !ok {
		return nil
	}
	_, err := base64.StdEncoding.Strict().DecodeString(s)
	return err
}

func validateTemplate(v any) error {
	s, ok := v.(string)
	if !ok {
		return nil
	}
	_, err := uritemplate.New(s)
	return err
}
