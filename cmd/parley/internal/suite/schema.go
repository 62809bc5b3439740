package suite

import _ "embed" // for schema.json

// SchemaURI identifies the JSON Schema of the files.
const SchemaURI = "https://raw.githubusercontent.com/parley-mcp/parley/main/cmd/parley/internal/suite/schema.json"

// Schema is the JSON Schema of the files.
//
//go:embed schema.json
var Schema []byte
