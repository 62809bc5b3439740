// Command prompts is a server with a prompt whose arguments can be completed.
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
	Language string  `json:"language" doc:"programming language" enum:"go,python,typescript"` // completed from the enum
	Reviewer string  `json:"reviewer" doc:"person whose style to use"`
	Focus    *string `json:"focus" doc:"main topic of the review"` // a pointer makes it optional
}

var reviewers = map[string][]string{"go": {"Greta", "Gustav"}, "python": {"Paul", "Petra"}}

func newServer() *server.Server {
	s := &server.Server{Name: "prompts", Version: "1.0.0"}
	server.AddPrompt(s, mcp.Prompt{Name: "review", Title: "Review", Description: "Review some code"},
		func(_ context.Context, in review) (string, error) {
			text := fmt.Sprintf("Review the following %s code in the style of %s.", in.Language, in.Reviewer)
			if in.Focus != nil {
				text += " Focus on " + *in.Focus + "."
			}
			return text, nil
		}, server.Complete("reviewer", suggest))
	return s
}

// suggest returns reviewers. others contains the arguments that already have a
// value.
func suggest(_ context.Context, value string, others map[string]string) ([]string, error) {
	var names []string
	for _, name := range reviewers[others["language"]] {
		if strings.HasPrefix(strings.ToLower(name), strings.ToLower(value)) {
			names = append(names, name)
		}
	}
	return names, nil
}

func main() {
	server.Main(newServer())
}
