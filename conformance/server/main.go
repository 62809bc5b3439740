// Command server is the server that the official conformance suite tests. It offers the fixtures that the scenarios
// expect, prints its URL on the first line, and serves until it is interrupted.
//
//	go run ./conformance/server -listen 127.0.0.1:8000
//
// With -issuer it requires access tokens of that authorization server, for the scenarios that send them.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/conformance/internal/endpoint"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

func main() {
	listen := "127.0.0.1:0"
	flag.StringVar(&listen, "listen", listen, "`address` to listen on; port 0 is a free port")
	flag.StringVar(&listen, "addr", listen, "the same as -listen")
	issuer := flag.String("issuer", "", "`URL` of the authorization server whose tokens are required")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, listen, *issuer); err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, listen, issuer string) error {
	s := &server.Server{Name: "parley-conformance", Version: "1.0.0",
		Info: mcp.Implementation{Title: "Parley under test"}}
	if issuer != "" {
		s.Auth = jwt.Protect(&auth.ProtectedResource{URI: "http://" + listen + "/mcp", Issuers: []string{issuer}})
	}
	addContentTools(s)
	addSchemaTools(s)
	addInputRequests(s)
	addResources(s)
	addPrompts(s)
	addChanges(s)
	addLogging(s)
	addStreams(s)
	addTasks(s)
	addSkills(s)
	return endpoint.Serve(ctx, s, closable(s), listen)
}
