package server_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

func ExampleAddResource() {
	s := &server.Server{Name: "status"}
	server.AddResource(s, mcp.Resource{URI: "status://queue", Name: "queue", Description: "How long the queue is"},
		func(context.Context) (map[string]int, error) {
			return map[string]int{"waiting": 3}, nil
		})

	c := inMemory(s)
	defer c.Close()
	show(c, "status://queue")
	// Output: application/json: {"waiting":3}
}

func ExampleAddStatic() {
	const readme = "# Read me first\n" // or embedded with go:embed
	s := &server.Server{Name: "docs"}
	server.AddStatic(s, mcp.Resource{URI: "docs://readme", Name: "readme", MimeType: "text/markdown"}, readme)

	c := inMemory(s)
	defer c.Close()
	for r, err := range c.Resources(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.URI, *r.Size, "bytes")
	}
	show(c, "docs://readme")
	// Output:
	// docs://readme 16 bytes
	// text/markdown: # Read me first
}

func ExampleAddTemplate() {
	type issue struct {
		Repo   string   `json:"repo"`
		Number int      `json:"number" minimum:"1"`
		Labels []string `json:"label,omitzero"`
	}
	s := &server.Server{Name: "issues"}
	server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: "issue://{repo}/{number}{?label*}", Name: "issue",
		MimeType: "text/plain"},
		func(_ context.Context, in issue) (string, error) {
			if in.Number > 100 {
				return "", call.ErrResourceNotFound
			}
			return fmt.Sprintf("issue %d of %s, labels %q", in.Number, in.Repo, in.Labels), nil
		})

	c := inMemory(s)
	defer c.Close()
	show(c, "issue://parley/7?label=bug&label=good%20first")
	show(c, "issue://parley/seven")
	show(c, "issue://parley/101")
	// Output:
	// text/plain: issue 7 of parley, labels ["bug" "good first"]
	// resource not found
	// resource not found
}

func ExampleAddFS() {
	dir, err := os.MkdirTemp("", "project")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n"), 0o600); err != nil {
		log.Fatal(err)
	}

	root, err := os.OpenRoot(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer root.Close()
	s := &server.Server{Name: "files"}
	server.AddFS(s, "file:///project/", root, server.FSOptions{})

	c := inMemory(s)
	defer c.Close()
	show(c, "file:///project/main.go")
	show(c, "file:///project/%2e%2e/etc/passwd")
	// Output:
	// text/x-go: package main
	// resource not found
}

func ExampleAddPrompt() {
	type review struct {
		Language string `json:"language" doc:"of the code" enum:"go,python,rust"`
		Lines    int    `json:"lines" doc:"how many to look at" default:"100"`
	}
	s := &server.Server{Name: "reviewer"}
	server.AddPrompt(s, mcp.Prompt{Name: "review", Description: "Reviews code"},
		func(_ context.Context, in review) (string, error) {
			return fmt.Sprintf("Review the first %d lines of this %s code.", in.Lines, in.Language), nil
		})

	c := inMemory(s)
	defer c.Close()
	prompt, err := c.GetPrompt(context.Background(), "review", map[string]string{"language": "go"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(prompt.Messages[0].Role, prompt.Messages[0].Content.(*mcp.TextContent).Text)
	// Output: user Review the first 100 lines of this go code.
}

func ExampleComplete() {
	type greeting struct {
		Language string `json:"language"`
		Word     string `json:"word"`
	}
	s := &server.Server{Name: "greeter"}
	words := map[string][]string{"nb": {"hei", "hallo"}, "de": {"hallo", "hi"}}
	suggest := func(_ context.Context, value string, arguments map[string]string) ([]string, error) {
		var fit []string
		for _, word := range words[arguments["language"]] {
			if strings.HasPrefix(word, value) {
				fit = append(fit, word)
			}
		}
		return fit, nil
	}
	server.AddPrompt(s, mcp.Prompt{Name: "greet"}, func(_ context.Context, in greeting) (string, error) {
		return in.Word, nil
	}, server.Complete("word", suggest))

	c := inMemory(s)
	defer c.Close()
	completion, err := c.Complete(context.Background(), mcp.CompleteParams{
		Ref:      mcp.CompleteReference{Type: mcp.RefPrompt, Name: "greet"},
		Argument: mcp.CompleteArgument{Name: "word", Value: "h"},
		Context:  &mcp.CompleteContext{Arguments: map[string]string{"language": "nb"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(completion.Values)
	// Output: [hei hallo]
}

func ExampleServer_RegisterResource() {
	s := &server.Server{Name: "mirror"}
	for _, uri := range []string{"mirror://one", "mirror://two"} { // known at run time only
		err := s.RegisterResource(mcp.Resource{URI: uri, Name: uri},
			func(_ context.Context, uri string) (*mcp.ReadResourceResult, error) {
				return &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{{MimeType: "text/plain",
					Text: "from " + uri}}}, nil
			})
		if err != nil {
			log.Fatal(err)
		}
	}

	c := inMemory(s)
	defer c.Close()
	show(c, "mirror://two")
	// Output: text/plain: from mirror://two
}

func ExampleServer_RegisterPrompt() {
	s := &server.Server{Name: "mirror"}
	err := s.RegisterPrompt(mcp.Prompt{Name: "echo", Arguments: []mcp.PromptArgument{{Name: "text", Required: true}}},
		func(_ context.Context, arguments map[string]string) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{Role: mcp.RoleAssistant,
				Content: mcp.Text(arguments["text"])}}}, nil
		})
	if err != nil {
		log.Fatal(err)
	}

	c := inMemory(s)
	defer c.Close()
	_, err = c.GetPrompt(context.Background(), "echo", nil)
	fmt.Println(err)
	// Output: prompts/get: invalid arguments: arguments/text: expected string, got nothing; it is required (code -32602)
}

// inMemory connects a client to s in memory.
func inMemory(s *server.Server) *client.Client {
	near, far := transport.Pipe()
	go func() { _ = s.ServeConn(context.Background(), far) }()
	c, err := client.Dial(context.Background(), client.Conn(near))
	if err != nil {
		log.Fatal(err)
	}
	return c
}

// show prints the contents of a resource.
func show(c *client.Client, uri string) {
	result, err := c.ReadResource(context.Background(), uri)
	switch {
	case err != nil:
		fmt.Println("resource not found")
	default:
		fmt.Printf("%s: %s\n", result.Contents[0].MimeType, strings.TrimSpace(result.Contents[0].Text))
	}
}
