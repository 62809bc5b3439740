package mock

import (
	_ "embed" // for schema.json
	"sync"

	"github.com/parley-mcp/parley/schema"
)

// SchemaURI identifies the JSON Schema of the YAML files.
const SchemaURI = "https://raw.githubusercontent.com/parley-mcp/parley/main/cmd/parley/internal/mock/schema.json"

// Schema is the JSON Schema of the YAML files.
//
//go:embed schema.json
var Schema []byte

var compiledSchema = sync.OnceValues(func() (*schema.Schema, error) { return schema.Compile(Schema) })
