package main

import (
	"context"
	"encoding/json"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// addSchemaTools adds the tools for tests of their schemas.
func addSchemaTools(s *server.Server) {
	echo := func(_ context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("Arguments: " + string(arguments))}}, nil
	}
	for _, tool := range []mcp.Tool{
		{Name: "json_schema_2020_12_tool", Description: "Has a schema with many keywords of JSON Schema 2020-12",
			InputSchema: json.RawMessage(schema202012)},
		{Name: "test_x_mcp_header", Description: "Has an argument that is mirrored in a header",
			InputSchema: json.RawMessage(schemaWithHeader)},
		{Name: "sep_2106_oneof_input_tool", Description: "Needs one of two arguments",
			InputSchema: json.RawMessage(schemaWithAlternatives)},
	} {
		if err := s.RegisterTool(tool, echo); err != nil {
			panic(err)
		}
	}
	server.AddTool(s, mcp.Tool{Name: "sep_2106_array_output_tool", Description: "Returns an array"},
		func(context.Context, none) ([]string, error) { return []string{"one", "two"}, nil })
	server.AddTool(s, mcp.Tool{Name: "sep_2106_primitive_output_tool", Description: "Returns a number"},
		func(context.Context, none) (float64, error) { return 42, nil })
}

const schemaWithAlternatives = `{
	"type": "object",
	"properties": {"id": {"type": "string"}, "name": {"type": "string"}},
	"oneOf": [{"required": ["id"]}, {"required": ["name"]}]
}`

const schema202012 = `{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"type": "object",
	"$defs": {
		"address": {
			"$anchor": "addressDef",
			"type": "object",
			"properties": {"street": {"type": "string"}, "city": {"type": "string"}}
		}
	},
	"properties": {
		"name": {"type": "string"},
		"address": {"$ref": "#/$defs/address"},
		"contactMethod": {"type": "string", "enum": ["phone", "email"]},
		"phone": {"type": "string"},
		"email": {"type": "string"}
	},
	"allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
	"if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
	"then": {"required": ["phone"]},
	"else": {"required": ["email"]},
	"additionalProperties": false
}`

const schemaWithHeader = `{
	"type": "object",
	"properties": {"region": {"type": "string", "x-mcp-header": "Region"}}
}`
