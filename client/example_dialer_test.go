package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// The fields of a Dialer are the settings of a client.
func ExampleDialer() {
	d := client.Dialer{
		Name: "example", Version: "1.0.0",
		Revision: mcp.V20250618,
		Timeouts: client.Timeouts{Tool: 5 * time.Minute},
	}
	c, err := d.Dial(context.Background(), inMemory(weatherServer()))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	fmt.Println(c.Revision())
	// Output:
	// 2025-06-18
}

// Elicit fills in the form that a server's tool requests.
func ExampleDialer_elicit() {
	type booking struct {
		Nights int `json:"nights"`
	}
	s := &server.Server{Name: "hotel"}
	server.AddTool(s, mcp.Tool{Name: "book"}, func(ctx context.Context, _ struct{}) (string, error) {
		in, err := server.Elicit[booking](ctx, "How many nights?")
		return fmt.Sprint("booked for ", in.Nights), err
	})

	d := client.Dialer{
		Elicit: func(_ context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			fmt.Println(form.Message) // ask the user
			return mcp.AcceptElicit(booking{Nights: 2})
		},
	}
	c, err := d.Dial(context.Background(), inMemory(s))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	text, err := client.CallTool[string](context.Background(), c, "book", nil)
	fmt.Println(text, err)
	// Output:
	// How many nights?
	// booked for 2 <nil>
}

// ElicitURL asks the user for consent before it opens the URL in a browser.
func ExampleDialer_elicitURL() {
	d := client.Dialer{
		ElicitURL: func(_ context.Context, request *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			fmt.Printf("The server asks you to open %s. Agree?\n", request.URL)
			return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
		},
	}
	s := &server.Server{Name: "files"}
	server.AddTool(s, mcp.Tool{Name: "connect"}, func(ctx context.Context, _ struct{}) (string, error) {
		err := server.ElicitURL(ctx, "https://example.com/login", "Log in to the file service.", nil)
		return "connected", err
	})
	c, err := d.Dial(context.Background(), inMemory(s))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	result, err := c.CallTool(context.Background(), "connect", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.IsError)
	// Output:
	// The server asks you to open https://example.com/login. Agree?
	// true
}

// Middleware wraps every request that a client sends.
func ExampleDialer_middleware() {
	print := func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			result, err := next(ctx, c)
			fmt.Println(c.Method(), err == nil)
			return result, err
		}
	}
	d := client.Dialer{Middleware: []call.Middleware{print}}
	c, err := d.Dial(context.Background(), inMemory(weatherServer()))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, err := c.CallTool(context.Background(), "weather", City{"Oslo"}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// server/discover true
	// tools/call true
}

// A stored Discovery makes the next Dial send nothing.
func ExampleDiscovery() {
	c := connect(weatherServer())
	stored, err := json.Marshal(c.Discovery())
	if err != nil {
		log.Fatal(err)
	}
	c.Close()

	d := client.Dialer{Discovery: new(client.Discovery)}
	if err := json.Unmarshal(stored, d.Discovery); err != nil {
		log.Fatal(err)
	}
	c, err = d.Dial(context.Background(), inMemory(weatherServer()))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	fmt.Println(c.Server().Info.Name)
	w, err := client.CallTool[Weather](context.Background(), c, "weather", City{"Oslo"})
	fmt.Println(w.Degrees, err)
	// Output:
	// weather station
	// -3.5 <nil>
}

// CallExtension calls the methods of an extension that both sides support.
func ExampleClient_CallExtension() {
	const id = "com.example/jobs"
	type count struct {
		Jobs int `json:"jobs"`
	}
	s := &server.Server{Name: "jobs"}
	server.AddExtension(s, server.Extension{
		ID: id,
		Requests: map[string]func(context.Context, json.RawMessage) (any, error){
			"jobs/count": func(context.Context, json.RawMessage) (any, error) { return count{3}, nil },
		},
	})
	d := client.Dialer{Extensions: []client.Extension{{ID: id}}}
	c, err := d.Dial(context.Background(), inMemory(s))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	result, err := c.CallExtension(context.Background(), "jobs/count", nil)
	jobs, _ := jsonrpc.Get(result, "jobs")
	fmt.Println(string(jobs), err)
	// Output:
	// 3 <nil>
}
