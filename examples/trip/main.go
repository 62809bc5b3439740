// Command trip is a server with a tool that asks two questions at once. In 2026-07-28 both
// questions need one round instead of two.
//
//	parley call plan to=Oslo -- go run ./examples/trip
package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

type destination struct {
	To string `json:"to" doc:"destination"`
}

type journey struct {
	Day    string `json:"day" title:"Day" enum:"fri,sat,sun"`
	Return bool   `json:"return" title:"Return trip?" default:"true"`
}

type seat struct {
	By string `json:"by" title:"Seat" enum:"window,aisle"`
}

func newServer() *server.Server {
	s := &server.Server{Name: "trip", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{Name: "plan", Description: "Plan a trip"}, plan)
	return s
}

func plan(ctx context.Context, in destination) (string, error) {
	var when journey
	var where seat
	err := server.Ask(ctx,
		server.ElicitInto(&when, "When do you travel to "+in.To+"?"),
		server.ElicitInto(&where, "Which seat do you want?"))
	switch {
	case errors.Is(err, server.ErrDeclined), errors.Is(err, server.ErrDismissed):
		return "No trip was planned.", nil
	case err != nil: // such as server.ErrInputRequired: the handler runs again with the answers
		return "", err
	}
	back := ""
	if when.Return {
		back = " and back"
	}
	return fmt.Sprintf("To %s%s on %s, by the %s.", in.To, back, when.Day, where.By), nil
}

func main() {
	server.Main(newServer())
}
