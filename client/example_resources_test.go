package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// library returns a server with resources and a prompt.
func library() *server.Server {
	type summary struct {
		Title string `json:"title" enum:"Emma,Persuasion"`
	}
	type chapter struct {
		Title   string `json:"title"`
		Chapter int    `json:"chapter"`
	}
	s := &server.Server{Name: "library"}
	server.AddStatic(s, mcp.Resource{URI: "book://emma", Name: "Emma"}, "Emma Woodhouse, handsome, clever, and rich")
	server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: "book://{title}/{chapter}", Name: "chapter"},
		func(_ context.Context, in chapter) (string, error) { return fmt.Sprint(in.Title, in.Chapter), nil })
	server.AddPrompt(s, mcp.Prompt{Name: "summarize"},
		func(_ context.Context, in summary) (string, error) { return "Summarize " + in.Title + ".", nil })
	return s
}

func ExampleClient_ReadResource() {
	c := connect(library())
	defer c.Close()
	for _, uri := range []string{"book://emma", "book://lost"} {
		result, err := c.ReadResource(context.Background(), uri)
		switch {
		case errors.Is(err, call.ErrResourceNotFound):
			fmt.Println("no resource", uri)
		case err != nil:
			log.Fatal(err)
		default:
			fmt.Println(result.Contents[0].Text)
		}
	}
	// Output:
	// Emma Woodhouse, handsome, clever, and rich
	// no resource book://lost
}

func ExampleClient_Resources() {
	c := connect(library())
	defer c.Close()
	for r, err := range c.Resources(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.URI, r.Name)
	}
	// Output: book://emma Emma
}

func ExampleClient_ResourceTemplates() {
	c := connect(library())
	defer c.Close()
	for t, err := range c.ResourceTemplates(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(t.URITemplate)
	}
	// Output: book://{title}/{chapter}
}

func ExampleClient_Prompts() {
	c := connect(library())
	defer c.Close()
	for p, err := range c.Prompts(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		for _, argument := range p.Arguments {
			fmt.Println(p.Name, argument.Name, argument.Required)
		}
	}
	// Output: summarize title true
}

func ExampleClient_GetPrompt() {
	c := connect(library())
	defer c.Close()
	prompt, err := c.GetPrompt(context.Background(), "summarize", map[string]string{"title": "Emma"})
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range prompt.Messages {
		fmt.Println(m.Role, m.Content.(*mcp.TextContent).Text)
	}
	// Output: user Summarize Emma.
}

func ExampleClient_Complete() {
	c := connect(library())
	defer c.Close()
	completion, err := c.Complete(context.Background(), mcp.CompleteParams{
		Ref:      mcp.CompleteReference{Type: mcp.RefPrompt, Name: "summarize"},
		Argument: mcp.CompleteArgument{Name: "title", Value: "e"},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(completion.Values)
	// Output: [Emma Persuasion]
}
