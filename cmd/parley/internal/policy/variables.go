package policy

import (
	"encoding/json"
	"strconv"

	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/schema"
)

// variables returns the values of the variables for a request.
func variables(r *host.Request) map[string]any {
	p := r.Caller.Principal
	annotations := map[string]any{}
	if r.Tool != nil && r.Tool.Annotations != nil {
		if raw, err := schema.Marshal(r.Tool.Annotations); err == nil {
			annotations, _ = valueOf(raw).(map[string]any)
		}
	}
	args, ok := valueOf(r.Arguments).(map[string]any)
	if !ok {
		args = map[string]any{}
	}
	scopes := r.Caller.Scopes
	if scopes == nil {
		scopes = []string{}
	}
	return map[string]any{
		"server": r.Server, "method": r.Method, "kind": r.Kind, "name": r.Name,
		"args": args, "annotations": annotations, "scopes": scopes,
		"principal": map[string]string{"issuer": p.Issuer(), "subject": p.Subject(), "client": p.Client()},
	}
}

// valueOf returns a JSON value as CEL expects it. Numbers without fraction and exponent are exact.
func valueOf(raw []byte) any {
	if len(raw) == 0 {
		return nil
	}
	switch raw[0] {
	case '{':
		object := make(map[string]any)
		for name, value := range jsonrpc.All(raw) {
			object[name] = valueOf(value)
		}
		return object
	case '[':
		var elements []json.RawMessage
		_ = schema.Decode(raw, &elements) // the JSON was checked
		array := make([]any, len(elements))
		for i, element := range elements {
			array[i] = valueOf(element)
		}
		return array
	case '"':
		return jsonrpc.Unquote(raw)
	case 't', 'f':
		return raw[0] == 't'
	case 'n':
		return nil
	}
	return numberOf(string(raw))
}

func numberOf(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return n
	}
	n, _ := strconv.ParseFloat(text, 64) // an infinity for a number that is too large
	return n
}
