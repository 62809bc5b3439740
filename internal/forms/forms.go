// Package forms completes and checks what users answer to the forms of servers.
package forms

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/parley-mcp/parley/internal/jsonscan"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// Form is a form that a server sends to a user. It is safe for concurrent use.
type Form struct {
	properties []mcp.ElicitProperty
	schema     *schema.Schema
}

// Parse reads the schema of a form. It returns an error unless [mcp.ParseElicitSchema] accepts it.
func Parse(requestedSchema json.RawMessage) (*Form, error) {
	parsed, err := mcp.ParseElicitSchema(requestedSchema)
	if err != nil {
		return nil, err
	}
	compiled, err := schema.Compile(requestedSchema)
	if err != nil {
		return nil, err
	}
	return &Form{properties: parsed.Properties, schema: compiled}, nil
}

// Complete adds the form's defaults for the fields that content lacks (2025-11-25, client/elicitation, Requested
// Schema), and returns an error unless the result matches the form. content is a JSON object, or nil if the user filled
// in nothing. The result is a copy.
func (f *Form) Complete(content json.RawMessage) (json.RawMessage, error) {
	if content == nil {
		content = json.RawMessage("{}")
	}
	content = bytes.TrimSpace(jsonscan.AppendUTF8(nil, content))
	if err := jsonrpc.Check(content, jsonrpc.Limits{}); err != nil {
		return nil, fmt.Errorf("the answer to the form cannot be read: %w", err)
	}
	completed := []byte{'{'}
	add := func(name string, value []byte) {
		if len(completed) > 1 {
			completed = append(completed, ',')
		}
		completed = append(append(jsonrpc.AppendString(completed, name), ':'), value...)
	}
	if string(content) != "null" && content[0] != '{' {
		return nil, errors.New("the answer does not match the form: it must be an object")
	}
	given := make(map[string]bool)
	for name, value := range jsonrpc.All(content) {
		given[name] = true
		add(name, value)
	}
	for _, p := range f.properties {
		if !given[p.Name] && p.Schema.Default != nil {
			add(p.Name, p.Schema.Default)
		}
	}
	completed = append(completed, '}')
	if err := f.schema.Validate(completed); err != nil {
		return nil, fmt.Errorf("the answer does not match the form: %w", err)
	}
	return completed, nil
}
