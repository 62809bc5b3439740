package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"time"

	"golang.org/x/oauth2"

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

// weatherServer returns the server of the examples.
func weatherServer() *server.Server {
	s := &server.Server{Name: "weather station", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{Name: "weather", Description: "Report the weather"},
		func(ctx context.Context, in City) (Weather, error) {
			if in.City != "Oslo" {
				return Weather{}, errors.New("no weather station in " + in.City)
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
	return s
}

// inMemory returns a target that connects to s in memory.
func inMemory(s *server.Server) client.Target {
	near, far := transport.Pipe()
	go s.ServeConn(context.Background(), far)
	return client.Conn(near)
}

// connect connects to s in memory.
func connect(s *server.Server) *client.Client {
	c, err := client.Dial(context.Background(), inMemory(s))
	if err != nil {
		log.Fatal(err)
	}
	return c
}

// The target is a command, a URL or, as here, a connection.
func ExampleDial() {
	target := inMemory(weatherServer()) // or client.Command("npx", "-y", "some-server")
	c, err := client.Dial(context.Background(), target)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	fmt.Println(c.Server().Info.Name, c.Revision())
	// Output:
	// weather station 2026-07-28
}

// URL reaches a server over HTTP.
func ExampleURL() {
	s := httptest.NewServer(weatherServer())
	defer s.Close()
	c, err := client.Dial(context.Background(), client.URL(s.URL))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	fmt.Println(c.Server().Info.Name)
	// Output:
	// weather station
}

// An HTTPTarget adds headers to the requests.
func ExampleHTTPTarget() {
	s := httptest.NewServer(weatherServer())
	defer s.Close()
	target := &client.HTTPTarget{URL: s.URL, Header: http.Header{"X-Api-Key": {"secret"}}}
	c, err := client.Dial(context.Background(), target)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	fmt.Println(c.Ping(context.Background()))
	// Output:
	// <nil>
}

// This program uses a token source from package golang.org/x/oauth2, such as cloud providers
// offer.
func ExampleBearerToken() {
	const url = "https://example.com/mcp"
	source := oauth2.StaticTokenSource(&oauth2.Token{AccessToken: os.Getenv("TOKEN")}) // usually renews the token
	d := client.Dialer{Auth: client.BearerToken(url, func(context.Context) (string, error) {
		token, err := source.Token()
		if err != nil {
			return "", err
		}
		return token.AccessToken, nil
	})}
	c, err := d.Dial(context.Background(), client.URL(url))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
}

// A CommandTarget sets the environment of the child process.
func ExampleCommandTarget() {
	target := &client.CommandTarget{CommandOptions: transport.CommandOptions{
		Path: "npx",
		Args: []string{"-y", "@modelcontextprotocol/server-everything"},
		Env:  []string{"API_KEY=secret"},
	}}
	c, err := client.Dial(context.Background(), target)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
}

// A DialError names the stage of the Dial, wraps the cause and gives advice.
func ExampleDialError() {
	_, err := client.Dial(context.Background(), client.Command("no-such-server"))
	var failed *client.DialError
	if errors.As(err, &failed) {
		fmt.Println(failed.Stage, failed.Stage == client.StageConnect)
		fmt.Println(errors.Is(err, exec.ErrNotFound))
		fmt.Println(failed.Advice())
	}
	// Output:
	// connect true
	// true
	// install the command or give its full path
}

// CallTool takes typed arguments and returns a typed result.
func ExampleCallTool() {
	c := connect(weatherServer())
	defer c.Close()
	w, err := client.CallTool[Weather](context.Background(), c, "weather", City{"Oslo"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.1f degrees in %s\n", w.Degrees, w.City)

	_, err = client.CallTool[Weather](context.Background(), c, "weather", City{"Atlantis"})
	var failed *client.ToolError
	fmt.Println(errors.As(err, &failed), err)
	// Output:
	// -3.5 degrees in Oslo
	// true tool weather failed: no weather station in Atlantis
}

func ExampleClient_CallTool() {
	c := connect(weatherServer())
	defer c.Close()
	result, err := c.CallTool(context.Background(), "weather", map[string]any{"city": "Oslo"})
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
	c := connect(weatherServer())
	defer c.Close()
	for tool, err := range c.Tools(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(tool.Name, "-", tool.Description)
	}
	// Output:
	// measure - Measure for a while
	// weather - Report the weather
}

func ExampleWithProgress() {
	c := connect(weatherServer())
	defer c.Close()
	text, err := client.CallTool[string](context.Background(), c, "measure", nil,
		client.WithProgress(func(done, total float64, message string) { fmt.Printf("%.0f/%.0f ", done, total) }))
	fmt.Println(text, err)
	// Output:
	// 1/3 2/3 3/3 it is cold <nil>
}

func ExampleWithTimeout() {
	s := &server.Server{Name: "slow"}
	server.AddTool(s, mcp.Tool{Name: "wait"}, func(ctx context.Context, _ struct{}) (string, error) {
		<-ctx.Done() // the client cancels the call
		return "", ctx.Err()
	})
	c := connect(s)
	defer c.Close()
	_, err := c.CallTool(context.Background(), "wait", nil, client.WithTimeout(10*time.Millisecond))
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output:
	// true
}

func ExampleClient_Watch() {
	ctx := context.Background()
	s := &server.Server{Name: "shop", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{Name: "browse"}, func(context.Context, struct{}) (string, error) { return "", nil })
	c := connect(s)
	defer c.Close()

	for change, err := range c.Watch(ctx, client.WatchFilter{Tools: true}) {
		if err != nil {
			log.Fatal(err)
		}
		n := 0
		for tool, err := range c.Tools(ctx) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println("tool", tool.Name)
			n++
		}
		if !change.Resync {
			break
		}
		fmt.Println("tools at first:", n)
		server.AddTool(s, mcp.Tool{Name: "buy"}, func(context.Context, struct{}) (string, error) { return "", nil })
	}
	// Output:
	// tool browse
	// tools at first: 1
	// tool browse
	// tool buy
}
