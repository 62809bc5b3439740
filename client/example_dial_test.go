package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// A program that cannot do without prompts says so before it begins.
func ExampleDialer_require() {
	d := client.Dialer{Require: mcp.ServerCapabilities{Prompts: &mcp.PromptsCapability{}}}
	_, err := d.Dial(context.Background(), weatherStation())
	var missing *client.MissingCapabilitiesError
	if errors.As(err, &missing) {
		fmt.Println(missing.Missing)
	}
	// Output:
	// [prompts]
}

// Clients that share a Cache share what their servers say is the same for everybody.
// What a client needs anew, it asks for with Fresh.
func ExampleCache() {
	shared := &client.Cache{MaxBytes: 64 << 20}
	d := client.Dialer{Cache: shared}
	c, err := d.Dial(context.Background(), weatherStation())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	for tool, err := range c.Tools(context.Background(), client.WithRefresh()) {
		fmt.Println(tool.Name, err)
	}
	// Output:
	// measure <nil>
	// weather <nil>
}

// What one connection has learned of a server spares the next the question.
func ExampleClient_Discovery() {
	c, err := client.Dial(context.Background(), weatherStation())
	if err != nil {
		log.Fatal(err)
	}
	stored, err := json.Marshal(c.Discovery())
	if err != nil {
		log.Fatal(err)
	}
	c.Close()

	d := client.Dialer{Discovery: new(client.Discovery)}
	if err := json.Unmarshal(stored, d.Discovery); err != nil {
		log.Fatal(err)
	}
	c, err = d.Dial(context.Background(), weatherStation()) // sends nothing
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	fmt.Println(c.Server().Info.Name)
	text, err := client.CallTool[Weather](context.Background(), c, "weather", City{"Oslo"})
	fmt.Println(text.Degrees, err)
	// Output:
	// weather station
	// -3.5 <nil>
}

// A text field asks for completions on each keystroke; the server hears of the last.
func ExampleClient_Typeahead() {
	s := &server.Server{Name: "reviewer"}
	server.AddPrompt(s, mcp.Prompt{Name: "review"}, func(_ context.Context, in struct {
		Language string `json:"language"`
	}) (string, error) {
		return "Review this " + in.Language + ".", nil
	})
	server.CompletePrompt(s, "review", "language", func(context.Context, string, map[string]string) ([]string, error) {
		return []string{"python", "pyret"}, nil
	})
	near, far := transport.Pipe()
	go s.ServeConn(context.Background(), far)
	c, err := client.Dial(context.Background(), client.Conn(near))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	field := c.Typeahead(mcp.CompleteReference{Type: mcp.RefPrompt, Name: "review"})
	typed := func(text string) { // the user interface calls this in a goroutine of its own
		completion, err := field.Complete(context.Background(), "language", text, nil)
		if errors.Is(err, client.ErrSuperseded) {
			return
		}
		fmt.Println(completion.Values, err)
	}
	typed("py")
	// Output:
	// [python pyret] <nil>
}
