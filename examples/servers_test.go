package examples

import (
	"bytes"
	"image/png"
	"net/http"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
)

func TestChart(t *testing.T) {
	c := startExample(t, "chart")
	result := must.Get(c.CallTool(t.Context(), "chart", map[string][]int{"values": {20, 80}}))(t)
	if len(result.Content) != 3 {
		t.Fatalf("%+v", result.Content)
	}
	picture, err := png.DecodeConfig(bytes.NewReader(result.Content[1].(*mcp.ImageContent).Data))
	if err != nil || picture.Width != 20 {
		t.Errorf("%+v, %v", picture, err)
	}
	link := result.Content[2].(*mcp.ResourceLink).URI
	must.Get(c.ReadResource(t.Context(), link))(t)
}

func TestReport(t *testing.T) {
	c := startExample(t, "report")
	task := must.Get(c.StartTool(t.Context(), "report", map[string]int{"months": 1}))(t)
	if task.ID() == "" {
		t.Fatal("the call is not a task")
	}
	result := must.Get(task.Wait(t.Context()))(t)
	must.CheckEqual(t, result.Content[0].(*mcp.TextContent).Text, "The report of 1 months.")
}

func TestTenants(t *testing.T) {
	url, _ := overHTTP(t, "tenants", "-http")
	tools := func(caller string) (c *client.Client, names string) {
		c = must.Get(client.Dial(t.Context(), &client.HTTPTarget{URL: url,
			Header: http.Header{"Authorization": {"Bearer key-of-" + caller}}}))(t)
		t.Cleanup(func() { _ = c.Close() })
		for tool, err := range c.Tools(t.Context()) {
			must.Do(t, err)
			names += tool.Name + " "
		}
		return c, names
	}
	ada, names := tools("ada")
	must.CheckEqual(t, names, "add_motto prices refund ")
	text := must.Get(client.CallTool[string](t.Context(), ada, "refund", map[string]int{"cents": 5}))(t)
	must.CheckEqual(t, text, "5 cents refunded")
	must.Get(client.CallTool[string](t.Context(), ada, "add_motto", map[string]string{"text": "Quality first."}))(t)

	grace, names := tools("grace")
	must.CheckEqual(t, names, "motto prices refund ")
	_, err := client.CallTool[string](t.Context(), grace, "refund", map[string]int{"cents": 5})
	must.CheckContains(t, err.Error(), "insufficient scope: the call needs billing")
	_, names = tools("alan")
	must.CheckEqual(t, names, "prices ")
}
