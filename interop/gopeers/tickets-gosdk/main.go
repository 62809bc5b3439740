// Command tickets-gosdk is examples/tickets made with github.com/modelcontextprotocol/go-sdk, for
// docs/guide/migration.md.
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
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type ticket struct {
	ID    string `json:"id"`
	Title string `json:"title"`
}

var tickets = []ticket{{"1", "The printer is on fire"}, {"2", "The printer is out of paper"}, {"3", "No coffee"}}

type query struct {
	Word string `json:"word" jsonschema:"a word in the title"`
	Max  int    `json:"max,omitempty" jsonschema:"the maximum number of tickets"`
}

type found struct {
	Tickets []ticket `json:"tickets"`
}

func find(_ context.Context, _ *mcp.CallToolRequest, in query) (*mcp.CallToolResult, found, error) {
	if in.Max == 0 {
		in.Max = 10
	}
	out := found{Tickets: []ticket{}}
	for _, t := range tickets {
		if strings.Contains(t.Title, in.Word) && len(out.Tickets) < in.Max {
			out.Tickets = append(out.Tickets, t)
		}
	}
	return nil, out, nil
}

type byID struct {
	ID string `json:"id" jsonschema:"number of the ticket"`
}

var reason = json.RawMessage(`{"type":"object","required":["reason"],
	"properties":{"reason":{"type":"string","title":"Reason","enum":["done","invalid"]}}}`)

func closeTicket(_ context.Context, req *mcp.CallToolRequest, in byID) (*mcp.CallToolResult, any, error) {
	answer, asked := req.Params.InputResponses["reason"].(*mcp.ElicitResult)
	if !asked {
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"reason": &mcp.ElicitParams{
			Message: "Why is ticket " + in.ID + " closed?", RequestedSchema: reason,
		}}}, nil, nil
	}
	why, ok := answer.Content["reason"].(string)
	if answer.Action != "accept" || !ok {
		return nil, nil, fmt.Errorf("no reason: %s", answer.Action)
	}
	text := "Ticket " + in.ID + " is closed: " + why
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
}

func read(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	uri := req.Params.URI
	for _, t := range tickets {
		if uri == "ticket://"+t.ID {
			text, err := json.Marshal(t)
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{
				{URI: uri, MIMEType: "application/json", Text: string(text)},
			}}, err
		}
	}
	return nil, mcp.ResourceNotFoundError(uri)
}

func triage(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	text := "Assess how urgent ticket " + req.Params.Arguments["id"] + " is."
	return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{
		{Role: "user", Content: &mcp.TextContent{Text: text}},
	}}, nil
}

func complete(_ context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	values := []string{}
	for _, t := range tickets {
		if req.Params.Ref.URI == "ticket://{id}" && strings.HasPrefix(t.ID, req.Params.Argument.Value) {
			values = append(values, t.ID)
		}
	}
	return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: values}}, nil
}

func newServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "tickets", Version: "1.0.0"},
		&mcp.ServerOptions{CompletionHandler: complete})
	mcp.AddTool(s, &mcp.Tool{Name: "find", Description: "Find tickets"}, find)
	mcp.AddTool(s, &mcp.Tool{Name: "close", Description: "Close a ticket"}, closeTicket)
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "ticket://{id}", Name: "ticket"}, read)
	s.AddPrompt(&mcp.Prompt{Name: "triage", Description: "Assess a ticket",
		Arguments: []*mcp.PromptArgument{{Name: "id", Description: "number of the ticket", Required: true}}}, triage)
	return s
}

func verify(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	key := os.Getenv("TICKETS_KEY")
	if subtle.ConstantTimeCompare([]byte(token), []byte(key)) != 1 || key == "" {
		return nil, auth.ErrInvalidToken
	}
	return &auth.TokenInfo{UserID: "operator", Expiration: time.Now().Add(time.Hour)}, nil
}

func main() {
	address := flag.String("http", "", "address to listen on, instead of serving standard input and output")
	stateless := flag.Bool("stateless", false, "serve 2026-07-28 over HTTP instead of sessions")
	flag.Parse()
	s := newServer()
	if *address == "" {
		log.Fatal(s.Run(context.Background(), &mcp.StdioTransport{}))
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s },
		&mcp.StreamableHTTPOptions{Stateless: *stateless})
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("serving http://%s/", listener.Addr())
	log.Fatal(http.Serve(listener, auth.RequireBearerToken(verify, nil)(handler)))
}
