package demo

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/mcp"
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

// bookTable asks the user for missing arguments during the call, in the way of the client's revision.
func bookTable(ctx context.Context, in bookingRequest) (string, error) {
	b := booking{Date: in.Date, People: in.People, Seat: "window"}
	if in.Date == "" || in.People == 0 {
		var err error
		b, err = server.Elicit[booking](ctx,
			fmt.Sprintf("When do you want to eat at %s, and with how many people?", in.Restaurant))
		if err != nil {
			return unanswered(err, "No table was booked",
				"the client cannot ask the user; pass the arguments date and people")
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
	case errors.As(err, &missing), errors.Is(err, errors.ErrUnsupported):
		return "", errors.New(unsupported)
	}
	return "", err
}

func addTrips(s *server.Server) {
	notReadOnly := &mcp.ToolAnnotations{OpenWorldHint: new(bool)}
	server.AddTool(s, mcp.Tool{Name: "plan_trip", Title: "Plan a trip",
		Description: "Plan a trip; ask two questions at once, and make one reservation", Annotations: notReadOnly},
		planTrip)
	server.AddTool(s, mcp.Tool{Name: "terms", Title: "Terms",
		Description: "Ask the user to open a page with example terms", Annotations: notReadOnly}, terms)
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
	err := server.Ask(ctx, server.ElicitInto(&when, fmt.Sprintf("When do you travel to %s?", in.To)),
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
		return unanswered(err, "The terms were not read",
			"the client cannot ask the user to open https://example.com/terms")
	}
	return "Thank you for reading the terms.", nil
}

// shop adds and removes the tool buy for all clients.
type shop struct {
	server *server.Server

	mu   sync.Mutex
	open bool
}

func addShop(s *server.Server) {
	server.AddTool(s, mcp.Tool{Name: "shop", Title: "Shop",
		Description: "Open or close a shop, which adds or removes the tool buy",
		Annotations: &mcp.ToolAnnotations{IdempotentHint: true, OpenWorldHint: new(bool)}}, (&shop{server: s}).set)
}

// set opens or closes the shop. Subscribers are notified of the changed list.
func (s *shop) set(_ context.Context, in struct {
	Open bool `json:"open" doc:"true to open the shop, false to close it"`
}) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == in.Open {
		return "The shop is unchanged.", nil
	}
	s.open = in.Open
	if !in.Open {
		s.server.RemoveTool("buy")
		return "The shop is closed.", nil
	}
	server.AddTool(s.server, mcp.Tool{Name: "buy", Title: "Buy",
		Description: "Buy something in the shop, free of charge",
		Annotations: &mcp.ToolAnnotations{OpenWorldHint: new(bool)}}, buy)
	return "The shop is open. The tool buy is available.", nil
}

func buy(_ context.Context, in struct {
	Thing string `json:"thing" enum:"apples,bread,cheese"`
}) (string, error) {
	return "You have bought " + in.Thing + ". This is a demo; nothing was charged.", nil
}

func addBakery(s *server.Server) {
	server.AddTool(s, mcp.Tool{Name: "bake", Title: "Bake",
		Description: "Bake a cake, which takes a while, and ask how to finish it",
		Annotations: &mcp.ToolAnnotations{OpenWorldHint: new(bool)}},
		bake, server.AsTask(server.TaskOptions{PollInterval: time.Second / 2, Replay: true}))
}

type cake struct {
	Kind         string `json:"kind" minLength:"1" maxLength:"100" doc:"such as plum or lemon"`
	Milliseconds int    `json:"milliseconds,omitempty" minimum:"1" maximum:"600000" doc:"time for each step; default: 2000"`
}

type finish struct {
	Icing   string `json:"icing" title:"Icing" enum:"none,sugar,chocolate" default:"sugar"`
	Candles int    `json:"candles" title:"Candles" minimum:"0" maximum:"100" default:"0"`
}

// bake is a long job with a question in the middle. It runs as a task if the client supports tasks. The handler runs
// again with the answer, and at another replica if the process ends, so each step is in Once.
func bake(ctx context.Context, in cake) (string, error) {
	pause := 2 * time.Second
	if in.Milliseconds > 0 {
		pause = time.Duration(in.Milliseconds) * time.Millisecond
	}
	number, err := server.Once(ctx, "oven", func(_ context.Context, key string) (string, error) {
		return shortNumber(key), nil
	})
	if err != nil {
		return "", err
	}
	for i, name := range []string{"mixing", "kneading", "baking"} {
		if err := step(ctx, pause, i, name); err != nil {
			return "", err
		}
	}
	how, err := server.Elicit[finish](ctx, fmt.Sprintf("The %s cake is baked. How do you want it?", in.Kind))
	if err != nil {
		return unanswered(err, "The cake stays plain", "the client cannot ask the user how to finish the cake")
	}
	if err := step(ctx, pause, 3, "finishing"); err != nil {
		return "", err
	}
	return fmt.Sprintf("Cake %s: %s, icing: %s, candles: %d. This is a demo; nothing was baked.", number, in.Kind,
		how.Icing, how.Candles), nil
}

// step takes a step of the job, unless an earlier run of the handler has completed it. If the process
// has ended during the step, step takes it again.
func step(ctx context.Context, pause time.Duration, done int, name string) error {
	take := func(ctx context.Context, _ string) (struct{}, error) {
		if err := server.Progress(ctx, float64(done), 4, name); err != nil {
			return struct{}{}, err
		}
		select {
		case <-time.After(pause):
			return struct{}{}, nil
		case <-ctx.Done():
			return struct{}{}, fmt.Errorf("stopped while %s: %w", name, context.Cause(ctx))
		}
	}
	_, err := server.Once(ctx, name, take)
	if errors.Is(err, server.ErrOnceUncertain) {
		_, err = take(ctx, "")
	}
	return err
}

type findings struct {
	Checked int      `json:"checked"`
	Sick    []string `json:"sick"`
}

// checkup sends its findings to the client as log messages.
func checkup(ctx context.Context, _ struct{}) (findings, error) {
	log := server.Logger(ctx).WithGroup("checkup")
	found := findings{Sick: []string{}}
	for _, machine := range []struct {
		name string
		full int // percent of the disk in use
	}{{"anna", 12}, {"bert", 71}, {"carl", 93}} {
		log.DebugContext(ctx, "checking", "machine", machine.name)
		found.Checked++
		if machine.full > 90 {
			log.WarnContext(ctx, "the disk is nearly full", "machine", machine.name, "percent", machine.full)
			found.Sick = append(found.Sick, machine.name)
			continue
		}
		log.InfoContext(ctx, "the machine is healthy", "machine", machine.name)
	}
	return found, nil
}

// addModel adds the tools that use the client's model and roots.
func addModel(s *server.Server) {
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(bool)}
	server.AddTool(s, mcp.Tool{Name: "summarize", Title: "Summarize",
		Description: "Summarize a text with the client's model", Annotations: readOnly}, summarize)
	server.AddTool(s, mcp.Tool{Name: "workspace", Title: "Workspace", Description: "List the roots of the client",
		Annotations: readOnly}, workspace)
}

func summarize(ctx context.Context, in struct {
	Text string `json:"text" minLength:"1" maxLength:"10000" doc:"the text to summarize"`
}) (string, error) {
	answer, err := server.Sample(ctx, mcp.CreateMessageParams{
		SystemPrompt: "Summarize the user's text in one sentence.",
		Messages:     []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: []mcp.Content{mcp.Text(in.Text)}}},
		MaxTokens:    200,
	})
	if err != nil {
		return unanswered(err, "There is no summary", "the client does not offer a model")
	}
	for _, content := range answer.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			return text.Text, nil
		}
	}
	return "", errors.New("the model returned no text")
}

func workspace(ctx context.Context, _ struct{}) (string, error) {
	roots, err := server.Roots(ctx)
	if err != nil {
		return unanswered(err, "There are no directories", "the client has no roots; parley sets them with --root")
	}
	var lines []string
	for _, root := range roots {
		lines = append(lines, strings.TrimSpace(root.Name+" "+root.URI))
	}
	return strings.Join(append(lines, "End of the list."), "\n"), nil
}
