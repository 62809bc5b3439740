package guide_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/big"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/schema"
	"github.com/parley-mcp/parley/server"
)

type search struct {
	Words  []string      `json:"words" doc:"words that must occur" minItems:"1" maxItems:"10" minLength:"2"`
	Order  string        `json:"order" enum:"newest,best" default:"best"`
	Limit  int           `json:"limit" minimum:"1" maximum:"100" default:"20"`
	Since  *time.Time    `json:"since" title:"Not before"`
	Within time.Duration `json:"within,omitzero" doc:"such as 90s or 2h"`
	Code   string        `json:"code,omitzero" pattern:"^[A-Z]{3}$"`
}

// The optional members are those that the page names.
func TestTagsMakeMembersOptional(t *testing.T) {
	s := must.Get(schema.For[search]())(t)
	must.CheckContains(t, string(s.JSON()), `"required":["words"]`)
	must.CheckContains(t, string(s.JSON()), `"minLength":2`)
}

// amount is a big.Int, which encodes itself as a number of any size.
type amount struct{ big.Int }

func (amount) JSONSchema() string { return `{"type": "integer", "minimum": 1}` }

func TestCustomTypesHaveTheirSchema(t *testing.T) {
	s := new(server.Server)
	server.AddTool(s, mcp.Tool{Name: "double"}, func(_ context.Context, in map[string]amount) (map[string]*amount, error) {
		n := in["n"]
		n.Add(&n.Int, &n.Int)
		return map[string]*amount{"n": &n}, nil
	})
	c := mcptest.Dial(t, s)
	text := must.Get(client.CallTool[json.RawMessage](t.Context(), c, "double", json.RawMessage(`{"n":50000000000000000000}`)))(t)
	must.CheckEqual(t, string(text), `{"n":100000000000000000000}`)
	_, err := client.CallTool[json.RawMessage](t.Context(), c, "double", json.RawMessage(`{"n":0}`))
	must.CheckContains(t, err.Error(), "arguments/n: ")
}

type file struct {
	Name string `json:"name"`
}

func readFile(_ context.Context, in file) (*mcp.CallToolResult, error) {
	switch in.Name {
	case "":
		return nil, errors.New("name must not be empty; list the files first") // a tool error
	case "huge.bin":
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{ // a tool error with several blocks
			mcp.Text("the file has 3 GB; read its summary instead"),
			&mcp.ResourceLink{URI: "file:///huge.txt", Name: "summary"},
		}}, nil
	case "audit.log":
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "audit.log is not for tools") // a protocol error
	}
	return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("the contents")}}, nil
}

func TestErrorsOfTools(t *testing.T) {
	s := new(server.Server)
	server.AddTool(s, mcp.Tool{Name: "read_file"}, readFile)
	c := mcptest.Dial(t, s)
	for name, want := range map[string]string{
		"":          "tool read_file failed: name must not be empty; list the files first",
		"huge.bin":  "tool read_file failed: the file has 3 GB; read its summary instead",
		"audit.log": "tools/call: audit.log is not for tools (code -32602)",
	} {
		_, err := client.CallTool[string](t.Context(), c, "read_file", file{name})
		var failed *client.ToolError
		if err == nil || err.Error() != want || errors.As(err, &failed) == (name == "audit.log") {
			t.Errorf("%q: error %v, want %s", name, err, want)
		}
	}
}
