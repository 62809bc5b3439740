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
	server.AddTool(s, mcp.Tool{Name: "plan_trip", Title: "Plan a trip", Description: "Plan a trip; asks two things at once, and reserves one seat however often it runs", Annotations: notReadOnly}, planTrip)
	server.AddTool(s, mcp.Tool{Name: "terms", Title: "Terms", Description: "Send you to a page with made-up terms, and go on when you have agreed to visit it", Annotations: notReadOnly}, terms)
}

type journey struct {
	Date   string `json:"date" title:"Date" format:"date" doc:"the day you leave"`
	Return bool   `json:"return" title:"And back?" default:"true"`
}

type company struct {
	People int    `json:"people" title:"People" minimum:"1" maximum:"9" default:"1" doc:"how many of you"`
	Class  string `json:"class" title:"Class" enum:"first,second" default:"second"`
}

// planTrip asks two questions at once, and does once what must happen once: in 2026-07-28 it
// runs again when the answers are there.
func planTrip(ctx context.Context, in struct {
	To string `json:"to" minLength:"1" maxLength:"100" doc:"any place"`
}) (string, error) {
	var when journey
	var who company
	err := server.Ask(ctx,
		server.ElicitInto(&when, fmt.Sprintf("When do you travel to %s?", in.To)),
		server.ElicitInto(&who, "Who travels, and how?"))
	if err != nil {
		return unanswered(err, "No trip was planned", "a trip needs answers")
	}
	number, err := server.Once(ctx, "reserve", func(_ context.Context, key string) (string, error) {
		return fmt.Sprintf("%.3X", sha256.Sum256([]byte(key))), nil
	})
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("Reservation %s: %d to %s on %s, %s class", number, who.People, in.To, when.Date, who.Class)
	if when.Return {
		text += ", and back"
	}
	return text + ". It is all made up.", nil
}

// terms sends the user to a page. That they agree to visit it is all there is to know.
func terms(ctx context.Context, _ struct{}) (string, error) {
	if err := server.ElicitURL(ctx, "https://example.com/terms", "Please read our terms, which are made up.", nil); err != nil {
		return unanswered(err, "The terms were not read", "the terms are at https://example.com/terms")
	}
	return "Thank you for reading the terms.", nil
}
