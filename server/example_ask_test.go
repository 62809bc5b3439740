package server_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

type Booking struct {
	Day    string `json:"day" title:"Day" enum:"mon,tue,wed"`
	People int    `json:"people" title:"People" minimum:"1" maximum:"9" default:"2"`
}

// ask calls a tool of s for a user who gives the same answer to each question.
func ask(s *server.Server, tool string, answer any) (string, error) {
	d := client.Dialer{Elicit: func(_ context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		fmt.Println(form.Message)
		if answer == nil {
			return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
		}
		return mcp.AcceptElicit(answer)
	}}
	near, far := transport.Pipe()
	served := make(chan error, 1)
	go func() { served <- s.ServeConn(context.Background(), far) }()
	c, err := d.Dial(context.Background(), client.Conn(near))
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		_ = c.Close()
		<-served
	}()
	return client.CallTool[string](context.Background(), c, tool, nil)
}

// The form and the validation of the answer follow from the type.
func ExampleElicit() {
	s := &server.Server{Name: "tables", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{Name: "book"}, func(ctx context.Context, _ struct{}) (string, error) {
		when, err := server.Elicit[Booking](ctx, "When, and for how many?")
		switch {
		case errors.Is(err, server.ErrDeclined), errors.Is(err, server.ErrDismissed):
			return "Nothing was booked.", nil
		case err != nil: // such as server.ErrInputRequired
			return "", err
		}
		return fmt.Sprintf("Booked for %d on %s.", when.People, when.Day), nil
	})

	fmt.Println(ask(s, "book", map[string]any{"day": "tue", "people": 4}))
	fmt.Println(ask(s, "book", nil))
	// Output:
	// When, and for how many?
	// Booked for 4 on tue. <nil>
	// When, and for how many?
	// Nothing was booked. <nil>
}

// In 2026-07-28 a handler runs again with the answers. The function inside of Once does not.
func ExampleOnce() {
	s := &server.Server{Name: "shop", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{Name: "buy"}, func(ctx context.Context, _ struct{}) (string, error) {
		number, err := server.Once(ctx, "reserve", func(_ context.Context, idempotencyKey string) (int, error) {
			fmt.Println("a seat is reserved")
			return 17, nil
		})
		if err != nil {
			return "", err
		}
		who, err := server.Elicit[struct {
			Name string `json:"name"`
		}](ctx, "For whom?")
		return fmt.Sprintf("Seat %d is for %s.", number, who.Name), err
	})

	fmt.Println(ask(s, "buy", map[string]string{"name": "Ada"}))
	// Output:
	// a seat is reserved
	// For whom?
	// Seat 17 is for Ada. <nil>
}

// Independent questions are asked at once: in 2026-07-28 they take one round instead of two.
func ExampleAsk() {
	s := &server.Server{Name: "tables", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{Name: "book"}, func(ctx context.Context, _ struct{}) (string, error) {
		var lunch, dinner Booking
		err := server.Ask(ctx,
			server.ElicitInto(&lunch, "When is lunch?"),
			server.ElicitInto(&dinner, "When is dinner?"))
		return fmt.Sprintf("Lunch on %s, dinner on %s.", lunch.Day, dinner.Day), err
	})

	fmt.Println(ask(s, "book", map[string]any{"day": "wed"}))
	// Unordered output:
	// When is lunch?
	// When is dinner?
	// Lunch on wed, dinner on wed. <nil>
}
