// Command weather is a server with a typed tool and structured output. The schemas come from the
// Go types. The server validates the arguments before it calls the handler.
//
//	parley call weather city=Oslo -- go run ./examples/weather
package main

import (
	"context"
	"fmt"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

type place struct {
	City string `json:"city" doc:"name of the city" minLength:"1" maxLength:"80"`
	Unit string `json:"unit" doc:"unit of the temperature" enum:"celsius,fahrenheit" default:"celsius"`
}

type weather struct {
	City        string  `json:"city"`
	Temperature float64 `json:"temperature" doc:"in the requested unit"`
	Windy       bool    `json:"windy"`
}

func newServer() *server.Server {
	s := &server.Server{Name: "weather", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{
		Name: "weather", Title: "Weather", Description: "Return the weather of a city",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
	}, current)
	return s
}

var stations = map[string]float64{"Oslo": -3.5, "Lima": 19}

func current(_ context.Context, in place) (weather, error) {
	degrees, known := stations[in.City]
	if !known {
		// A tool error, which the model can read and act upon.
		return weather{}, fmt.Errorf("unknown city %q; use Oslo or Lima", in.City)
	}
	if in.Unit == "fahrenheit" {
		degrees = degrees*9/5 + 32
	}
	return weather{City: in.City, Temperature: degrees, Windy: in.City == "Oslo"}, nil
}

func main() {
	server.Main(newServer())
}
