package guide_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

var cover, recording = []byte("\x89PNG"), []byte("RIFF")

func song(context.Context, struct{}) ([]mcp.Content, error) {
	return []mcp.Content{
		mcp.Text("a 3-second song with its cover and lyrics"),
		mcp.Image(cover, "image/png"),
		mcp.Audio(recording, "audio/wav"),
		&mcp.EmbeddedResource{Resource: mcp.ResourceContents{ // the contents of a resource
			URI: "song://1/text", MimeType: "text/plain", Text: "La la la."}},
		&mcp.ResourceLink{URI: "song://1/notes", Name: "notes", // the client can read the resource
			Annotations: &mcp.Annotations{Audience: []mcp.Role{mcp.RoleUser}}}, // it is not for the model
	}, nil
}

// Each revision receives all blocks, in a form that it has.
func TestEveryKindOfBlockArrives(t *testing.T) {
	newServer := func() *server.Server {
		s := new(server.Server)
		server.AddTool(s, mcp.Tool{Name: "song"}, song)
		return s
	}
	mcptest.Everywhere(t, newServer, func(t *testing.T, c *client.Client) {
		result := must.Get(c.CallTool(t.Context(), "song", nil))(t)
		must.CheckEqual(t, len(result.Content), 5)
	})
}

// openTickets returns a summary for the model, and the numbers for programs.
func openTickets(context.Context, struct{}) (*mcp.CallToolResult, error) {
	raw, err := json.Marshal(map[string]int{"open": 12, "urgent": 3})
	return &mcp.CallToolResult{
		Content:           []mcp.Content{mcp.Text("12 open tickets, 3 of them urgent")},
		StructuredContent: raw,
	}, err
}

func TestModelReadsAnotherText(t *testing.T) {
	s := new(server.Server)
	server.AddTool(s, mcp.Tool{Name: "open", OutputSchema: json.RawMessage(`{"type":"object","required":["open"]}`)},
		openTickets)
	c := mcptest.Dial(t, s)
	numbers := must.Get(client.CallTool[map[string]int](t.Context(), c, "open", nil))(t)
	must.CheckEqual(t, numbers["urgent"], 3)
	result := must.Get(c.CallTool(t.Context(), "open", nil))(t)
	must.CheckEqual(t, result.Content[0].(*mcp.TextContent).Text, "12 open tickets, 3 of them urgent")
}

func addFind(s *server.Server) error {
	err := s.RegisterTool(
		mcp.Tool{Name: "find", Description: "Find a person by name or number", InputSchema: json.RawMessage(`{
			"type": "object",
			"properties": {"name": {"type": "string"}, "number": {"type": "integer", "minimum": 1}},
			"oneOf": [{"required": ["name"]}, {"required": ["number"]}]
		}`)},
		func(_ context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("found with " + string(arguments))}}, nil
		})
	return err
}

func TestSchemaOfOneOf(t *testing.T) {
	s := new(server.Server)
	must.Do(t, addFind(s))
	c := mcptest.Dial(t, s)
	must.Get(client.CallTool[string](t.Context(), c, "find", map[string]any{"number": 7}))(t)
	_, err := client.CallTool[string](t.Context(), c, "find", map[string]any{"number": 7, "name": "Ada"})
	must.CheckContains(t, err.Error(), "invalid arguments")
}
