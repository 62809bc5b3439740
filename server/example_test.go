package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

func ExampleAddTool() {
	type Greeting struct {
		Name string `json:"name" doc:"who to greet"`
	}
	s := &server.Server{Name: "greeter", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{Name: "greet", Description: "Say hello"},
		func(ctx context.Context, in Greeting) (string, error) {
			return "Hello, " + in.Name + "!", nil
		})

	c := inMemory(s)
	defer c.Close()
	text, err := client.CallTool[string](context.Background(), c, "greet", Greeting{"Ada"})
	fmt.Println(text, err)

	// Arguments that do not match the schema do not reach the handler.
	_, err = client.CallTool[string](context.Background(), c, "greet", map[string]any{"name": 7})
	fmt.Println(err)
	// Output:
	// Hello, Ada! <nil>
	// tool greet failed: invalid arguments: arguments/name: expected string, got number 7
}

// A struct becomes structured content, with an output schema.
func ExampleAddTool_structured() {
	type City struct {
		City string `json:"city"`
	}
	type Weather struct {
		City    string  `json:"city"`
		Degrees float64 `json:"degrees"`
	}
	s := new(server.Server)
	server.AddTool(s, mcp.Tool{Name: "weather", Description: "Tell the weather"},
		func(ctx context.Context, in City) (Weather, error) {
			if in.City != "Oslo" {
				return Weather{}, errors.New("there is no weather station in " + in.City)
			}
			return Weather{in.City, -3.5}, nil
		})

	c := inMemory(s)
	defer c.Close()
	w, err := client.CallTool[Weather](context.Background(), c, "weather", City{"Oslo"})
	fmt.Printf("%+v %v\n", w, err)
	_, err = client.CallTool[Weather](context.Background(), c, "weather", City{"Atlantis"})
	fmt.Println(err)
	// Output:
	// {City:Oslo Degrees:-3.5} <nil>
	// tool weather failed: there is no weather station in Atlantis
}

// A tool that is known at run time only.
func ExampleServer_RegisterTool() {
	s := new(server.Server)
	err := s.RegisterTool(mcp.Tool{
		Name:        "add",
		Description: "Add two numbers",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},` +
			`"required":["a","b"]}`),
	}, func(ctx context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error) {
		var in struct{ A, B int }
		if err := json.Unmarshal(arguments, &in); err != nil {
			return nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(fmt.Sprint(in.A + in.B))}}, nil
	})
	if err != nil {
		log.Fatal(err)
	}

	c := inMemory(s)
	defer c.Close()
	fmt.Println(client.CallTool[string](context.Background(), c, "add", map[string]int{"a": 1, "b": 2}))
	fmt.Println(s.RemoveTool("add"))
	// Output:
	// 3 <nil>
	// true
}

func ExampleProgress() {
	s := new(server.Server)
	server.AddTool(s, mcp.Tool{Name: "build", Description: "Build it all"},
		func(ctx context.Context, in struct{}) (string, error) {
			for i, step := range []string{"compile", "link"} {
				if err := server.Progress(ctx, float64(i+1), 2, step); err != nil {
					return "", err
				}
			}
			return "built", nil
		})

	c := inMemory(s)
	defer c.Close()
	text, err := client.CallTool[string](context.Background(), c, "build", nil,
		client.WithProgress(func(done, total float64, message string) {
			fmt.Printf("%v of %v: %s\n", done, total, message)
		}))
	fmt.Println(text, err)
	// Output:
	// 1 of 2: compile
	// 2 of 2: link
	// built <nil>
}

// A Server is an http.Handler that can be mounted on any path.
func ExampleServer_ServeHTTP() {
	s := new(server.Server)
	server.AddTool(s, mcp.Tool{Name: "now", Description: "Tell the time"},
		func(ctx context.Context, in struct{}) (string, error) { return "high time", nil })
	mux := http.NewServeMux()
	mux.Handle("/mcp", s)

	endpoint := httptest.NewServer(mux) // http.ListenAndServe("127.0.0.1:8080", mux)
	defer endpoint.Close()
	d := client.Dialer{HTTPClient: endpoint.Client()}
	c, err := d.Dial(context.Background(), client.URL(endpoint.URL+"/mcp"))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	fmt.Println(client.CallTool[string](context.Background(), c, "now", nil))
	// Output:
	// high time <nil>
}

// The same Server also serves any other stream of lines.
func ExampleServer_ServeConn() {
	s := new(server.Server)
	server.AddTool(s, mcp.Tool{Name: "hello", Description: "Say hello"},
		func(ctx context.Context, in struct{}) (string, error) { return "Hello!", nil })

	input := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n")
	output := new(strings.Builder)
	conn := transport.Stream(struct {
		io.Reader
		io.Writer
		io.Closer
	}{input, output, io.NopCloser(nil)}, transport.StreamOptions{})
	if err := s.ServeConn(context.Background(), conn); err != nil {
		log.Fatal(err)
	}
	fmt.Print(output)
	// Output:
	// {"jsonrpc":"2.0","id":1,"result":{}}
}
