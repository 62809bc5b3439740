package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

type City struct {
	City string `json:"city"`
}

type Weather struct {
	City    string  `json:"city"`
	Degrees float64 `json:"degrees"`
}

// weatherStation is a server that the examples call, in memory.
func weatherStation() client.Target {
	s := &server.Server{Name: "weather station", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{Name: "weather", Description: "Tell the weather"},
		func(ctx context.Context, in City) (Weather, error) {
			if in.City != "Oslo" {
				return Weather{}, errors.New("there is no weather station in " + in.City)
			}
			return Weather{in.City, -3.5}, nil
		})
	server.AddTool(s, mcp.Tool{Name: "measure", Description: "Measure for a while"},
		func(ctx context.Context, in struct{}) (string, error) {
			for i := range 3 {
				if err := server.Progress(ctx, float64(i+1), 3, ""); err != nil {
					return "", err
				}
			}
			return "it is cold", nil
		})
	near, far := transport.Pipe()
	go s.ServeConn(context.Background(), far)
	return client.Conn(near)
}

// Dial finds out which revision a server speaks. It may be a command, a URL, or,
// as here, a connection that is there already.
func ExampleDial() {
	c, err := client.Dial(context.Background(), weatherStation()) // client.Command("npx", "-y", "some-server")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	fmt.Println(c.Server().Info.Name, c.Revision())
	// Output:
	// weather station 2026-07-28
}

// A Dialer is a Dial with settings.
func ExampleDialer() {
	d := client.Dialer{
		Name: "example", Version: "1.0.0",
		Revision: mcp.V20250618,
		Timeouts: client.Timeouts{Tool: 5 * time.Minute},
	}
	c, err := d.Dial(context.Background(), weatherStation())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	fmt.Println(c.Revision())
	// Output:
	// 2025-06-18
}

// CallTool has types on both sides.
func ExampleCallTool() {
	c, err := client.Dial(context.Background(), weatherStation())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	w, err := client.CallTool[Weather](context.Background(), c, "weather", City{"Oslo"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.1f degrees in %s\n", w.Degrees, w.City)

	var failed *client.ToolError
	_, err = client.CallTool[Weather](context.Background(), c, "weather", City{"Atlantis"})
	fmt.Println(errors.As(err, &failed), err)
	// Output:
	// -3.5 degrees in Oslo
	// true tool weather failed: there is no weather station in Atlantis
}

func ExampleClient_CallTool() {
	c, err := client.Dial(context.Background(), weatherStation())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	result, err := c.CallTool(context.Background(), "weather", map[string]any{"city": "Oslo"}, client.WithTimeout(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	for _, content := range result.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			fmt.Println(result.IsError, text.Text)
		}
	}
	// Output:
	// false {"city":"Oslo","degrees":-3.5}
}

func ExampleClient_Tools() {
	c, err := client.Dial(context.Background(), weatherStation())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	for tool, err := range c.Tools(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(tool.Name, "-", tool.Description)
	}
	// Output:
	// measure - Measure for a while
	// weather - Tell the weather
}

func ExampleWithProgress() {
	c, err := client.Dial(context.Background(), weatherStation())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	text, err := client.CallTool[string](context.Background(), c, "measure", nil, client.WithProgress(func(done, total float64, _ string) {
		fmt.Printf("%.0f/%.0f ", done, total)
	}))
	fmt.Println(text, err)
	// Output:
	// 1/3 2/3 3/3 it is cold <nil>
}

// Middleware wraps every request that a client makes.
func ExampleDialer_middleware() {
	printed := func(next call.Handler) call.Handler {
		return func(ctx context.Context, c *call.Call) (any, error) {
			result, err := next(ctx, c)
			fmt.Println(c.Method(), err == nil)
			return result, err
		}
	}
	d := client.Dialer{Middleware: []call.Middleware{printed}}
	c, err := d.Dial(context.Background(), weatherStation())
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
