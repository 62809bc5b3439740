// Command owngateway is a gateway that uses only the public API of Parley, without its package gateway: it presents
// several servers as one. It is a separate module, like a program in another repository.
//
// A file lists the servers. One host runs them all. Each user gets a separate process or session of every server that
// is not shared, and a server can be reserved for some users. A policy decides which tools may be called, and which
// only after the user has agreed. Questions, progress and log messages of a server reach the user whose call it
// serves.
//
//	parley key add ada --file keys.json
//	go run ./examples/owngateway -keys keys.json -servers servers.json -http 127.0.0.1:8080
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// entry is a server in the file, listed under its name: {"notes": {"command": ["./notes"]}}.
type entry struct {
	Command []string `json:"command"`
	URL     string   `json:"url"`
	Shared  bool     `json:"shared"` // all users share one connection
	Users   []string `json:"users"`  // users who may use the server; empty: everybody
}

func (e *entry) config(name string) host.ServerConfig {
	c := host.ServerConfig{Name: name, Target: client.URL(e.URL), Sharing: host.SharingUser}
	if len(e.Command) > 0 {
		c.Target = client.Command(e.Command[0], e.Command[1:]...)
	}
	if e.Shared {
		c.Sharing = host.SharingEveryone
	}
	return c
}

// policy allows tools that only read, and asks the user about the rest.
var policy = host.Rules{Version: "1", Default: host.Ask, Rules: []host.Rule{
	{Tool: "delete_*", Action: host.Deny, Reason: "nothing is deleted here"},
	{Tool: "read_*", Action: host.Allow},
	{Method: mcp.MethodElicit, Action: host.Allow}, // the user sees the question
}}

// gateway presents the servers of a host as the tools of one server.
type gateway struct {
	server server.Server
	host   host.Host
	users  map[string][]string // users of each server; empty: everybody
}

func newGateway(servers map[string]*entry) *gateway {
	g := &gateway{host: host.Host{Policy: policy, Approve: approve, Callers: true}, users: make(map[string][]string)}
	for name, e := range servers {
		g.host.Servers = append(g.host.Servers, e.config(name))
		g.users[name] = e.Users
	}
	return g
}

// follow keeps the tools of the server equal to the tools of the host, until ctx ends. Clients are notified of changes.
func (g *gateway) follow(ctx context.Context) {
	known := make(map[string][]host.Tool)
	for status := range g.host.Watch(ctx) {
		if status.State != host.Removed && status.Revision == "" {
			continue // not ready yet; a server that is down keeps its tools
		}
		for _, tool := range known[status.Name] {
			g.server.RemoveTool(tool.Name)
		}
		known[status.Name] = status.Tools
		for _, tool := range status.Tools {
			if err := g.add(tool); err != nil {
				log.Printf("tool %s: %v", tool.Name, err)
			}
		}
	}
}

// add adds a tool for its users, unless the policy denies them the tool whatever its arguments are. A call that waits
// for the user must not begin again with the answer, so it is parked.
func (g *gateway) add(tool host.Tool) error {
	merged := tool.Definition
	merged.Name = tool.Name
	request := &host.Request{Method: mcp.MethodCallTool, Kind: host.KindTool, Server: tool.Server,
		Name: tool.Definition.Name, Tool: &tool.Definition}
	visible := func(who principal.Principal, _ string) bool {
		users, hides := g.users[tool.Server], g.host.Hides(who)
		return (len(users) == 0 || slices.Contains(users, who.Subject())) && (hides == nil || !hides(request))
	}
	return g.server.RegisterTool(merged, func(ctx context.Context, in json.RawMessage) (*mcp.CallToolResult, error) {
		progress := client.WithProgress(func(done, total float64, text string) {
			_ = server.Progress(ctx, done, total, text)
		})
		return g.host.Call(host.WithCaller(ctx, callerOf(ctx)), tool.Name, in, progress, client.WithUndecodedText(),
			client.WithLogLevel(server.LogLevel(ctx)))
	}, server.Forwarded(nil), server.Parked(), server.VisibleTo(visible))
}

// callerOf returns the client that sent the call: a server works on its behalf, and it answers the server's
// questions.
func callerOf(ctx context.Context) *host.Caller {
	c := &host.Caller{Session: server.SessionOf(ctx).ID(), Auth: auth.FromContext(ctx),
		Log: func(ctx context.Context, m mcp.LoggingMessageParams) { _ = server.Log(ctx, m) }}
	if can := server.InputCapabilities(ctx); can.Elicitation.SupportsForm() {
		c.Elicit = ask
	}
	return c
}

// ask passes a question of a server to the client whose call it serves.
func ask(ctx context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	params, _ := json.Marshal(form) // never fails: the server has sent it as JSON
	raw, err := server.RequestInput(ctx, mcp.MethodElicit, params)
	if err != nil {
		return nil, err
	}
	answer := new(mcp.ElicitResult)
	return answer, json.Unmarshal(raw, answer)
}

// approve asks the user who calls a tool whether to call it.
func approve(ctx context.Context, a *host.Approval) (bool, error) {
	answer, err := server.Elicit[struct {
		Approve bool `json:"approve"`
	}](ctx, a.Question())
	if errors.Is(err, server.ErrDeclined) || errors.Is(err, server.ErrDismissed) {
		return false, nil
	}
	return answer.Approve, err
}

func main() {
	keys := flag.String("keys", "keys.json", "the file with the digests of the API keys")
	file := flag.String("servers", "servers.json", `the servers: {"notes": {"command": ["./notes"]}}`)
	address := flag.String("http", "127.0.0.1:8080", "the address to serve on")
	flag.Parse()
	content, err := os.ReadFile(*file)
	var servers map[string]*entry
	if err = errors.Join(err, json.Unmarshal(content, &servers)); err != nil {
		log.Fatal(err)
	}
	g := newGateway(servers)
	if err := g.host.Start(); err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go g.follow(ctx)
	g.server.Name, g.server.Auth = "owngateway", &auth.ProtectedResource{Verifier: &auth.Keys{File: *keys}}
	if err := g.server.ListenAndServe(ctx, *address); err != nil {
		log.Print(err)
	}
	_ = g.host.Close() // ends the processes of the servers
}
