// Command prompts offers a prompt whose arguments complete while the user types.
//
//	parley complete prompt review reviewer g --given language=go -- go run ./examples/prompts
//	parley prompt review language=go reviewer=Greta -- go run ./examples/prompts
package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

type review struct {
	Language string  `json:"language" doc:"of the code" enum:"go,python,typescript"` // completes by itself
	Reviewer string  `json:"reviewer" doc:"whose manner to take on"`
	Focus    *string `json:"focus" doc:"what to look at above all"` // a pointer: may be left out
}

var reviewers = map[string][]string{"go": {"Greta", "Gustav"}, "python": {"Paul", "Petra"}}

func newServer() *server.Server {
	s := &server.Server{Name: "prompts", Version: "1.0.0"}
	server.AddPrompt(s, mcp.Prompt{Name: "review", Title: "Review", Description: "Review some code"},
		func(_ context.Context, in review) (string, error) {
			text := fmt.Sprintf("Review the %s code that follows as %s would.", in.Language, in.Reviewer)
			if in.Focus != nil {
				text += " Look at " + *in.Focus + " above all."
			}
			return text, nil
		})
	// Others are the arguments that have a value already.
	server.CompletePrompt(s, "review", "reviewer", func(_ context.Context, value string, others map[string]string) ([]string, error) {
		var names []string
		for _, name := range reviewers[others["language"]] {
			if strings.HasPrefix(strings.ToLower(name), strings.ToLower(value)) {
				names = append(names, name)
			}
		}
		return names, nil
	})
	return s
}

func main() {
	server.Main(newServer())
}
