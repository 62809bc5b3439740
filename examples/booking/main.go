// Command booking has a tool that asks its user half-way. The handler is straight-line
// code in every revision that has forms. In 2026-07-28 it runs again for each round,
// so what must happen once goes into server.Once.
//
//	parley call book restaurant=Maaemo -- go run ./examples/booking
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync/atomic"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

type table struct {
	Restaurant string `json:"restaurant" doc:"where to book"`
}

type booking struct {
	Day    string `json:"day" title:"Day" enum:"mon,tue,wed"`
	People int    `json:"people" title:"People" minimum:"1" maximum:"9" default:"2"`
}

func newServer() *server.Server {
	s := &server.Server{Name: "booking", Version: "1.0.0"}
	var numbers atomic.Int64
	server.AddTool(s, mcp.Tool{Name: "book", Description: "Book a table"},
		func(ctx context.Context, in table) (string, error) {
			when, err := server.Elicit[booking](ctx, "When, and for how many?")
			switch {
			case errors.Is(err, server.ErrDeclined), errors.Is(err, server.ErrDismissed):
				return "Nothing was booked: the user would not say when.", nil
			case err != nil:
				return "", err
			}
			// The idempotency key lets whoever takes the booking recognise a repetition.
			number, err := server.Once(ctx, "book", func(_ context.Context, idempotencyKey string) (int64, error) {
				log.Printf("booking %s under %s", in.Restaurant, idempotencyKey)
				return numbers.Add(1), nil
			})
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("Booked %s on %s for %d: number %d.", in.Restaurant, when.Day, when.People, number), nil
		})
	return s
}

func main() {
	if err := newServer().Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
