// Command weather has a typed tool with structured output. Both schemas come from
// the Go types; arguments that do not fit never reach the handler, and the model is
// told why.
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
	City string `json:"city" doc:"where" minLength:"1" maxLength:"80"`
	Unit string `json:"unit" doc:"of the temperature" enum:"celsius,fahrenheit" default:"celsius"`
}

type weather struct {
	City        string  `json:"city"`
	Temperature float64 `json:"temperature" doc:"in the unit that was asked for"`
	Windy       bool    `json:"windy"`
}

func newServer() *server.Server {
	s := &server.Server{Name: "weather", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{
		Name: "weather", Title: "Weather", Description: "Tell the weather of a city",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
	}, tell)
	return s
}

var stations = map[string]float64{"Oslo": -3.5, "Lima": 19}

func tell(_ context.Context, in place) (weather, error) {
	degrees, known := stations[in.City]
	if !known {
		// A tool error: the model reads it, and may try something else.
		return weather{}, fmt.Errorf("there is no station in %s; there are some in Oslo and Lima", in.City)
	}
	if in.Unit == "fahrenheit" {
		degrees = degrees*9/5 + 32
	}
	return weather{City: in.City, Temperature: degrees, Windy: in.City == "Oslo"}, nil
}

func main() {
	server.Main(newServer())
}
