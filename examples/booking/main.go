// Command booking is a server with a tool that asks the user for details. The handler is
// straight-line code in every revision that has forms. In 2026-07-28 it runs again when the
// answer arrives; see the order example for work that must be done only once.
//
//	parley call book -- go run ./examples/booking
package main

import (
	"context"
	"fmt"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

type booking struct {
	Day    string `json:"day" title:"Day" enum:"mon,tue,wed"`
	People int    `json:"people" title:"People" minimum:"1" maximum:"9" default:"2"`
}

func main() {
	s := &server.Server{Name: "booking", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{Name: "book", Description: "Book a table"},
		func(ctx context.Context, _ struct{}) (string, error) {
			table, err := server.Elicit[booking](ctx, "On which day, and for how many people?")
			if err != nil {
				return "", err // such as server.ErrDeclined, which becomes a tool error
			}
			return fmt.Sprintf("Booked a table for %d on %s.", table.People, table.Day), nil
		})
	server.Main(s)
}
