package guide_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

func describeClient(ctx context.Context, _ struct{}) (string, error) {
	c := call.From(ctx)
	if c.Peer().Capabilities != nil && c.Peer().Capabilities.Elicitation != nil {
		return "this client can show forms", nil
	}
	return fmt.Sprintf("this client of revision %s cannot show forms", c.Revision()), nil
}

type place struct {
	City string `json:"city"`
}

type weather struct {
	Forecast string `json:"forecast"`
}

func forecast(context.Context, place) (weather, error) { return weather{"rain"}, nil }

func addForecast(s *server.Server) {
	server.AddExtension(s, server.Extension{
		ID: "com.example/weather",
		Requests: map[string]func(ctx context.Context, params json.RawMessage) (any, error){
			"com.example/forecast": server.ExtensionRequest(forecast),
		},
	})
}

func TestServerKnowsItsClient(t *testing.T) {
	s := new(server.Server)
	server.AddTool(s, mcp.Tool{Name: "client"}, describeClient)
	addForecast(s)
	declared := func(d *client.Dialer) { d.Extensions = []client.Extension{{ID: "com.example/weather"}} }
	c := mcptest.Dial(t, s, mcptest.WithRevision(mcp.V20250618), declared)
	must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, "client", nil))(t),
		"this client of revision 2025-06-18 cannot show forms")
	result := must.Get(client.CallExtension[weather](t.Context(), c, "com.example/forecast", place{"Oslo"}))(t)
	must.CheckEqual(t, result.Forecast, "rain")
}
