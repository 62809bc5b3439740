package gateway_test

import (
	"strings"
	"testing"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
)

// The first string of a pair is the input schema of a tool of the upstream server. The second
// is the schema that clients of the gateway receive, or empty if it is the same schema.
var uncheckable = map[string][2]string{
	"lookahead":         {`{"type":"object","properties":{"p":{"type":"string","pattern":"^(?!x)a+$"}}}`, ""},
	"remote_reference":  {`{"type":"object","properties":{"p":{"$ref":"https://example.com/schema.json"}}}`, ""},
	"remote_root":       {`{"type":"object","$ref":"https://example.com/schema.json"}`, ""},
	"missing_reference": {`{"type":"object","properties":{"p":{"$ref":"#/$defs/absent"}}}`, ""},
	"unknown_dialect":   {`{"$schema":"https://example.com/dialect","type":"object"}`, ""},
	"invalid":           {`{"type":"object","properties":{"p":{"type":7,"required":"p"}}}`, ""},
	"endless":           {`{"type":"object","$ref":"#"}`, ""},
	"huge":              {`{"type":"object","properties":{"p":{"enum":["` + strings.Repeat("x", 600_000) + `"]}}}`, ""},
	"wide":              {`{"type":"object","allOf":[{}` + strings.Repeat(",{}", 30_000) + `]}`, ""},
	"deep":              {`{"type":"object","properties":{"p":` + strings.Repeat(`{"not":`, 60) + `{}` + strings.Repeat(`}`, 61) + `}`, ""},
	"invalid_header":    {`{"type":"object","properties":{"p":{"type":"object","x-mcp-header":"P"}}}`, ""},
	"secret_header":     {`{"type":"object","properties":{"token":{"type":"string","x-mcp-header":"Token"}}}`, ""},
	"without_type":      {`{"properties":{"p":{}}}`, `{"properties":{"p":{}},"type":"object"}`},
	"two_types":         {`{"x-a":1,"type":["object","null"]}`, `{"x-a":1,"type":"object"}`},
	"another_type":      {`{"type":"array"}`, `{"type":"object"}`},
	"boolean":           {`true`, `{"type":"object"}`},
}

// Every tool of an upstream is listed with its schemas, and can be called, whether or not
// the gateway can check them.
func TestToolsWithUncheckableSchemasAreForwarded(t *testing.T) {
	var definitions []string
	outputs := make(map[string]string)
	for name, schemas := range uncheckable {
		definitions = append(definitions, `{"name":"in_`+name+`","inputSchema":`+schemas[0]+`}`)
		if name != "boolean" {
			definitions = append(definitions, `{"name":"out_`+name+`","inputSchema":{"type":"object"},"outputSchema":`+schemas[0]+`}`)
			outputs["up__out_"+name] = schemas[0]
		}
	}
	up := upstream{
		mcp.MethodListTools: `{"tools":[` + strings.Join(definitions, ",") + `]}`,
		mcp.MethodCallTool:  `{"content":[{"type":"text","text":"called"}],"structuredContent":{"p":"aa"}}`,
	}
	for _, revision := range mcp.Revisions() {
		t.Run(string(revision), func(t *testing.T) {
			c := mcptest.Dial(t, gatewayTo(t, up.start(t, "up")), mcptest.WithRevision(revision))
			tools := make(map[string]*mcp.Tool)
			for _, tool := range listed(t, c) {
				tools[tool.Name] = tool
			}
			for name, schemas := range uncheckable {
				tool, want := tools["up__in_"+name], schemas[1]
				if want == "" {
					want = schemas[0]
				}
				if tool == nil || string(tool.InputSchema) != want {
					t.Errorf("%s: the tool is %.200v, want the input schema %.100s", name, tool, want)
				}
			}
			for name, want := range outputs {
				tool := tools[name]
				switch hasType := strings.Contains(want, `"type":"object"`) && !strings.Contains(name, "types"); {
				case tool == nil:
					t.Errorf("%s is not listed", name)
				case revision.Modern() || hasType && revision >= mcp.V20250618:
					if string(tool.OutputSchema) != want {
						t.Errorf("%s has the output schema %.100s, want %.100s", name, tool.OutputSchema, want)
					}
				case tool.OutputSchema != nil:
					t.Errorf("%s has the output schema %.100s, want none", name, tool.OutputSchema)
				}
			}
			for name := range uncheckable {
				if result, err := c.CallTool(t.Context(), "up__in_"+name, nil); err != nil || result.IsError {
					t.Errorf("%s: %+v, %v", name, result, err)
				}
			}
		})
	}
}

// The gateway applies the keywords that it can check. The server does not receive arguments
// that these keywords reject.
func TestArgumentsAreCheckedByTheKeywordsThatCanBeChecked(t *testing.T) {
	up := upstream{
		mcp.MethodListTools: `{"tools":[{"name":"t","inputSchema":{"type":"object","properties":{"p":{"type":"string","pattern":"^(?!x)a+$"}}}}]}`,
		mcp.MethodCallTool:  `{"content":[{"type":"text","text":"called"}]}`,
	}
	c := mcptest.Dial(t, gatewayTo(t, up.start(t, "up")))
	result, err := c.CallTool(t.Context(), "up__t", map[string]any{"p": 7})
	if err != nil || !result.IsError {
		t.Errorf("%+v, %v, want a tool error", result, err)
	}
}
