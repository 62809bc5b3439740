// Command tickets-mcpgo is examples/tickets made with github.com/mark3labs/mcp-go, for docs/guide/migration.md.
package main

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

type ticket struct {
	ID    string `json:"id"`
	Title string `json:"title"`
}

var tickets = []ticket{{"1", "The printer is on fire"}, {"2", "The printer is out of paper"}, {"3", "No coffee"}}

type query struct {
	Word string `json:"word"`
	Max  int    `json:"max"`
}

type found struct {
	Tickets []ticket `json:"tickets"`
}

func find(_ context.Context, _ mcp.CallToolRequest, in query) (found, error) {
	if in.Word == "" {
		return found{}, fmt.Errorf("word must not be empty")
	}
	if in.Max == 0 {
		in.Max = 10
	}
	out := found{Tickets: []ticket{}}
	for _, t := range tickets {
		if strings.Contains(t.Title, in.Word) && len(out.Tickets) < in.Max {
			out.Tickets = append(out.Tickets, t)
		}
	}
	return out, nil
}

var reason = map[string]any{"type": "object", "required": []string{"reason"}, "properties": map[string]any{
	"reason": map[string]any{"type": "string", "title": "Reason", "enum": []string{"done", "invalid"}},
}}

func closeTicket(_ context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	id, err := request.RequireString("id")
	if err != nil {
		return mcp.NewToolResultError(err.Error()), nil
	}
	answer := server.ElicitationResponse(request.Params.InputResponses, "reason")
	if answer == nil {
		return server.NewInputRequestBuilder("").Elicit("reason", mcp.ElicitationParams{
			Mode: mcp.ElicitationModeForm, Message: "Why is ticket " + id + " closed?", RequestedSchema: reason,
		}).ToolResult(), nil
	}
	content, _ := answer.Content.(map[string]any)
	why, ok := content["reason"].(string)
	if answer.Action != mcp.ElicitationResponseActionAccept || !ok {
		return mcp.NewToolResultErrorf("no reason: %s", answer.Action), nil
	}
	return mcp.NewToolResultText("Ticket " + id + " is closed: " + why), nil
}

func read(_ context.Context, request mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
	uri := request.Params.URI
	for _, t := range tickets {
		if uri == "ticket://"+t.ID {
			text, err := json.Marshal(t)
			return []mcp.ResourceContents{
				mcp.TextResourceContents{URI: uri, MIMEType: "application/json", Text: string(text)},
			}, err
		}
	}
	return nil, server.ErrResourceNotFound
}

func triage(_ context.Context, request mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	text := "Assess how urgent ticket " + request.Params.Arguments["id"] + " is."
	return mcp.NewGetPromptResult("", []mcp.PromptMessage{
		mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent(text)),
	}), nil
}

type completer struct{}

func (completer) CompleteResourceArgument(
	_ context.Context, _ string, argument mcp.CompleteArgument, _ mcp.CompleteContext,
) (*mcp.Completion, error) {
	values := []string{}
	for _, t := range tickets {
		if strings.HasPrefix(t.ID, argument.Value) {
			values = append(values, t.ID)
		}
	}
	return &mcp.Completion{Values: values}, nil
}

func newServer() *server.MCPServer {
	s := server.NewMCPServer("tickets", "1.0.0", server.WithToolCapabilities(true), server.WithElicitation(),
		server.WithCompletions(), server.WithResourceCompletionProvider(completer{}))
	s.AddTool(mcp.NewTool("find", mcp.WithDescription("Find tickets"),
		mcp.WithString("word", mcp.Description("a word in the title"), mcp.Required()),
		mcp.WithNumber("max", mcp.Description("the maximum number of tickets"), mcp.DefaultNumber(10), mcp.Min(1)),
		mcp.WithOutputSchema[found]()), mcp.NewStructuredToolHandler(find))
	s.AddTool(mcp.NewTool("close", mcp.WithDescription("Close a ticket"),
		mcp.WithString("id", mcp.Description("number of the ticket"), mcp.Required())), closeTicket)
	s.AddResourceTemplate(mcp.NewResourceTemplate("ticket://{id}", "ticket"), read)
	s.AddPrompt(mcp.NewPrompt("triage", mcp.WithPromptDescription("Assess a ticket"), mcp.WithArgument("id",
		mcp.ArgumentDescription("number of the ticket"), mcp.RequiredArgument())), triage)
	return s
}

func requireKey(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := os.Getenv("TICKETS_KEY")
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if subtle.ConstantTimeCompare([]byte(token), []byte(key)) != 1 || key == "" {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "unknown key", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func main() {
	address := flag.String("http", "", "address to listen on, instead of serving standard input and output")
	flag.Parse()
	s := newServer()
	if *address == "" {
		log.Fatal(server.ServeStdio(s))
	}
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("serving http://%s/", listener.Addr())
	log.Fatal(http.Serve(listener, requireKey(server.NewStreamableHTTPServer(s))))
}
