package demo

import (
	"context"
	"errors"
	"fmt"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/server"
)

type wish struct {
	Restaurant string `json:"restaurant" minLength:"1" doc:"any restaurant"`
	People     int    `json:"people,omitempty" minimum:"1" maximum:"12" doc:"how many; asked for unless given"`
	Date       string `json:"date,omitempty" format:"date" doc:"such as 2027-01-31; asked for unless given"`
}

// booking is the form that the user fills in.
type booking struct {
	Date   string   `json:"date" title:"Date" format:"date" doc:"the day you come"`
	People int      `json:"people" title:"People" minimum:"1" maximum:"12" default:"2" doc:"how many of you"`
	Seat   string   `json:"seat" title:"Seat" enum:"inside,window,terrace" default:"window" doc:"where to sit"`
	Diets  []string `json:"diets,omitempty" title:"Diets" enum:"vegetarian,vegan,gluten-free" doc:"what the kitchen should know"`
	Name   string   `json:"name,omitempty" title:"Name" maxLength:"40" doc:"whom the table is for"`
	Remind bool     `json:"remind" title:"Remind you?" default:"true"`
}

// bookTable asks the user in the middle of a call, in whichever way the client's
// revision has.
func bookTable(ctx context.Context, in wish) (string, error) {
	b := booking{Date: in.Date, People: in.People, Seat: "window"}
	if in.Date == "" || in.People == 0 {
		var err error
		b, err = server.Elicit[booking](ctx, fmt.Sprintf("When do you come to %s, and how many are you?", in.Restaurant))
		if err != nil {
			return unanswered(err, "No table was booked", "give date and people")
		}
	}
	text := fmt.Sprintf("A table (%s) at %s for %d on %s", b.Seat, in.Restaurant, b.People, b.Date)
	if b.Name != "" {
		text += ", for " + b.Name
	}
	for i, diet := range b.Diets {
		if i == 0 {
			text += "; "
		} else {
			text += ", "
		}
		text += diet
	}
	return text + ". It is all made up.", nil
}

// unanswered is what a tool says whose question has not been answered.
func unanswered(err error, consequence, instead string) (string, error) {
	var missing *call.CapabilityError
	switch {
	case errors.Is(err, server.ErrDeclined), errors.Is(err, server.ErrDismissed):
		return consequence + ": " + err.Error() + ".", nil
	case errors.As(err, &missing), errors.Is(err, server.ErrUnsupported):
		return "", errors.New("nobody can be asked here: " + instead)
	}
	return "", err
}
