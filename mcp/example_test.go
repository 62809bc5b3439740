package mcp_test

import (
	"encoding/json"
	"fmt"

	"github.com/parley-mcp/parley/mcp"
)

func ExampleCallToolResult() {
	result := mcp.CallToolResult{
		Content:           []mcp.Content{mcp.Text("18 °C in Paris")},
		StructuredContent: json.RawMessage(`{"celsius":18}`),
	}
	raw, err := json.Marshal(result)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(raw))
	// Output: {"content":[{"type":"text","text":"18 °C in Paris"}],"structuredContent":{"celsius":18}}
}

func ExampleContent() {
	var result mcp.CallToolResult
	err := json.Unmarshal([]byte(`{"content":[
		{"type": "text", "text": "a cat"},
		{"type": "image", "data": "iVBORw==", "mimeType": "image/png"},
		{"type": "hologram", "rays": 7}
	]}`), &result)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, block := range result.Content {
		switch block := block.(type) {
		case *mcp.TextContent:
			fmt.Println("text:", block.Text)
		case *mcp.ImageContent:
			fmt.Println(block.MimeType, "of", len(block.Data), "bytes")
		case *mcp.UnknownContent:
			fmt.Println("unknown type:", block.Type)
		}
	}
	// Output:
	// text: a cat
	// image/png of 4 bytes
	// unknown type: hologram
}

func ExampleMeta_Set() {
	var params mcp.CallToolParams
	fmt.Println(params.Meta.Set("com.example/trace", 7))
	fmt.Println(params.Meta.Set("com.example/", "a name may be empty"))
	fmt.Println(params.Meta.Set("two words", 7))
	// Output:
	// <nil>
	// <nil>
	// invalid _meta key "two words": the name must contain only letters, digits, '-', '_' and '.'
}

func ExampleParseElicitSchema() {
	schema, err := mcp.ParseElicitSchema([]byte(`{
		"type": "object",
		"properties": {
			"when": {"type": "string", "format": "date", "title": "Date"},
			"meal": {"type": "string", "oneOf": [{"const": "m", "title": "Meat"}, {"const": "v", "title": "Vegetables"}]}
		},
		"required": ["when"]
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range schema.Properties {
		fmt.Println(p.Name, p.Schema.Type, p.Schema.Options())
	}
	// Output:
	// when string []
	// meal string [{m Meat} {v Vegetables}]
}
