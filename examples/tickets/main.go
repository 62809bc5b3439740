// Command tickets is a server with a tool, a tool that asks the user, a resource template and a prompt. Over HTTP it
// requires a bearer key, which is the value of the environment variable TICKETS_KEY. The pages about migration compare
// it with the same server in other SDKs.
//
//	parley call find word=printer -- go run ./examples/tickets
//	TICKETS_KEY=4c6f7665 go run ./examples/tickets -http 127.0.0.1:8080
package main

import (
	"context"
	"crypto/subtle"
	"flag"
	"os"
	"strings"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

type ticket struct {
	ID    string `json:"id"`
	Title string `json:"title"`
}

var tickets = []ticket{{"1", "The printer is on fire"}, {"2", "The printer is out of paper"}, {"3", "No coffee"}}

type query struct {
	Word string `json:"word" doc:"a word in the title"`
	Max  int    `json:"max" doc:"the maximum number of tickets" default:"10" minimum:"1"`
}

type found struct {
	Tickets []ticket `json:"tickets"`
}

func find(_ context.Context, in query) (found, error) {
	out := found{}
	for _, t := range tickets {
		if strings.Contains(t.Title, in.Word) && len(out.Tickets) < in.Max {
			out.Tickets = append(out.Tickets, t)
		}
	}
	return out, nil
}

type byID struct {
	ID string `json:"id" doc:"number of the ticket"`
}

type reason struct {
	Reason string `json:"reason" title:"Reason" enum:"done,invalid"`
}

func closeTicket(ctx context.Context, in byID) (string, error) {
	why, err := server.Elicit[reason](ctx, "Why is ticket "+in.ID+" closed?")
	if err != nil {
		return "", err // such as server.ErrDeclined, which becomes a tool error
	}
	return "Ticket " + in.ID + " is closed: " + why.Reason, nil
}

func read(_ context.Context, in byID) (ticket, error) {
	for _, t := range tickets {
		if t.ID == in.ID {
			return t, nil
		}
	}
	return ticket{}, call.ErrResourceNotFound
}

func triage(_ context.Context, in byID) (string, error) {
	return "Assess how urgent ticket " + in.ID + " is.", nil
}

// verify implements auth.Verifier for one caller, whose key is TICKETS_KEY.
func verify(_ context.Context, token string) (*auth.Info, error) {
	key := os.Getenv("TICKETS_KEY")
	if subtle.ConstantTimeCompare([]byte(token), []byte(key)) != 1 || key == "" {
		return nil, &auth.InvalidTokenError{Reason: "unknown key"}
	}
	who, err := principal.New("tickets", "operator", "")
	return &auth.Info{Principal: who}, err
}

func newServer() *server.Server {
	s := &server.Server{Name: "tickets", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{Name: "find", Description: "Find tickets"}, find)
	server.AddTool(s, mcp.Tool{Name: "close", Description: "Close a ticket"}, closeTicket)
	server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: "ticket://{id}", Name: "ticket"}, read,
		server.CompleteFrom("id", "1", "2", "3"))
	server.AddPrompt(s, mcp.Prompt{Name: "triage", Description: "Assess a ticket"}, triage)
	return s
}

func main() {
	address := flag.String("http", "", "address to listen on, instead of serving standard input and output")
	flag.Parse()
	s := newServer()
	if *address != "" {
		s.Auth = &auth.ProtectedResource{Verifier: auth.VerifierFunc(verify)}
	}
	server.Main(s)
}
