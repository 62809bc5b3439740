package demo

import (
	"context"
	"errors"
	"fmt"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/server"
)

type bookingRequest struct {
	Restaurant string `json:"restaurant" minLength:"1" doc:"any name"`
	People     int    `json:"people,omitempty" minimum:"1" maximum:"12" doc:"number of people; the user is asked if it is missing"`
	Date       string `json:"date,omitempty" format:"date" doc:"such as 2027-01-31; the user is asked if it is missing"`
}

// booking is the form for the user.
type booking struct {
	Date   string   `json:"date" title:"Date" format:"date" doc:"day of the booking"`
	People int      `json:"people" title:"People" minimum:"1" maximum:"12" default:"2" doc:"number of people"`
	Seat   string   `json:"seat" title:"Seat" enum:"inside,window,terrace" default:"window" doc:"preferred seat"`
	Diets  []string `json:"diets,omitempty" title:"Diets" enum:"vegetarian,vegan,gluten-free" doc:"diets of the guests"`
	Name   string   `json:"name,omitempty" title:"Name" maxLength:"40" doc:"name of the booking"`
	Remind bool     `json:"remind" title:"Send a reminder?" default:"true"`
}

// bookTable asks the user for missing arguments during the call, in the way of the client's
// revision.
func bookTable(ctx context.Context, in bookingRequest) (string, error) {
	b := booking{Date: in.Date, People: in.People, Seat: "window"}
	if in.Date == "" || in.People == 0 {
		var err error
		b, err = server.Elicit[booking](ctx, fmt.Sprintf("When do you want to eat at %s, and with how many people?", in.Restaurant))
		if err != nil {
			return unanswered(err, "No table was booked", "the client cannot ask the user; pass the arguments date and people")
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
	return text + ". This is a demo; nothing was booked.", nil
}

// unanswered returns the result of a tool whose question was not answered. unsupported is the
// text of the error if the client does not support the question.
func unanswered(err error, consequence, unsupported string) (string, error) {
	var missing *call.CapabilityError
	switch {
	case errors.Is(err, server.ErrDeclined), errors.Is(err, server.ErrDismissed):
		return consequence + ": " + err.Error() + ".", nil
	case errors.As(err, &missing), errors.Is(err, server.ErrUnsupported):
		return "", errors.New(unsupported)
	}
	return "", err
}
