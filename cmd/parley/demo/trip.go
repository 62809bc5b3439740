package demo

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

func addTrips(s *server.Server) {
	notReadOnly := &mcp.ToolAnnotations{OpenWorldHint: new(bool)}
	server.AddTool(s, mcp.Tool{Name: "plan_trip", Title: "Plan a trip", Description: "Plan a trip; ask two questions at once, and make one reservation", Annotations: notReadOnly}, planTrip)
	server.AddTool(s, mcp.Tool{Name: "terms", Title: "Terms", Description: "Ask the user to open a page with example terms", Annotations: notReadOnly}, terms)
}

type journey struct {
	Date   string `json:"date" title:"Date" format:"date" doc:"day of departure"`
	Return bool   `json:"return" title:"Return trip?" default:"true"`
}

type party struct {
	People int    `json:"people" title:"People" minimum:"1" maximum:"9" default:"1" doc:"number of travellers"`
	Class  string `json:"class" title:"Class" enum:"first,second" default:"second"`
}

// planTrip asks two questions at once. In 2026-07-28 the handler runs again when the answers
// arrive, so it makes the reservation with Once.
func planTrip(ctx context.Context, in struct {
	To string `json:"to" minLength:"1" maxLength:"100" doc:"destination"`
}) (string, error) {
	var when journey
	var who party
	err := server.Ask(ctx,
		server.ElicitInto(&when, fmt.Sprintf("When do you travel to %s?", in.To)),
		server.ElicitInto(&who, "Who travels, and in which class?"))
	if err != nil {
		return unanswered(err, "No trip was planned", "the client cannot ask the user the questions about the trip")
	}
	number, err := server.Once(ctx, "reserve", func(_ context.Context, key string) (string, error) {
		return shortNumber(key), nil
	})
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("Reservation %s: %d to %s on %s, %s class", number, who.People, in.To, when.Date, who.Class)
	if when.Return {
		text += ", return trip"
	}
	return text + ". This is a demo; nothing was booked.", nil
}

// shortNumber returns the same number for the same idempotency key.
func shortNumber(key string) string { return fmt.Sprintf("%.3X", sha256.Sum256([]byte(key))) }

// terms asks the user to open a page. It learns only that the user agrees to open it.
func terms(ctx context.Context, _ struct{}) (string, error) {
	if err := server.ElicitURL(ctx, "https://example.com/terms", "Please read our example terms.", nil); err != nil {
		return unanswered(err, "The terms were not read", "the client cannot ask the user to open https://example.com/terms")
	}
	return "Thank you for reading the terms.", nil
}
