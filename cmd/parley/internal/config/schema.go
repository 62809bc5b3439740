package config

import _ "embed" // for schema.json

// SchemaURI identifies the JSON Schema of parley's own configuration files.
const SchemaURI = "https://raw.githubusercontent.com/parley-mcp/parley/main/cmd/parley/internal/config/schema.json"

// Schema is the JSON Schema of parley's own configuration files.
//
//go:embed schema.json
var Schema []byte
