// Command owngateway is a gateway of its own: it presents the servers of each user as one server, with the public API
// of Parley and without its package gateway. It is a module of its own, like a program in another repository.
//
// A file has the users: the programs that run for each of them. A user has tools only of these programs, each of which
// runs for this user alone. A policy decides which tools may be called, and which only after the user has agreed. What
// the programs ask, report and log reaches the user who calls them.
//
//	parley key add ada --file keys.json
//	go run ./examples/owngateway -keys keys.json -users users.json -http 127.0.0.1:8080
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// policy allows what only reads, and asks the user about the rest.
var policy = host.Rules{Version: "1", Default: host.Ask, Rules: []host.Rule{
	{Tool: "delete_*", Action: host.Deny, Reason: "nothing is deleted here"},
	{Tool: "read_*", Action: host.Allow},
	{Tool: "list_*", Action: host.Allow},
	{Method: mcp.MethodElicit, Action: host.Allow}, // the user sees the question
}}

// Gateway has a host for each user. Its hosts run until it is closed.
type Gateway struct {
	Servers func(user principal.Principal) []host.ServerConfig

	mu    sync.Mutex
	users map[principal.Principal]*user
}

// user is what one user has: the host of their servers, and a catalog of the tools of these servers.
type user struct {
	host    *host.Host
	catalog server.Catalog
	listed  *server.ListFilter // without what the policy denies whatever the arguments are
	follow  sync.WaitGroup

	mu    sync.Mutex
	known map[string]host.ServerStatus // what catalog has, by server
}

// Catalogs is server.Server.Catalogs: the catalog of the caller. Servers that need longer than five seconds to start
// come later: the clients are notified then.
func (g *Gateway) Catalogs(ctx context.Context) ([]*server.Catalog, error) {
	u, err := g.of(server.PrincipalOf(ctx))
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_ = u.host.WaitReady(waiting)
	for _, status := range u.host.Status() {
		u.update(status)
	}
	return []*server.Catalog{&u.catalog}, nil
}

// of returns what a user has. The servers of the user start with the first request.
func (g *Gateway) of(who principal.Principal) (*user, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if u, ok := g.users[who]; ok {
		return u, nil
	}
	u := &user{known: make(map[string]host.ServerStatus),
		host: &host.Host{Servers: g.Servers(who), Policy: policy, Approve: approve, Dialer: dialer}}
	u.listed = &server.ListFilter{Hides: func(who principal.Principal, _ string) func(request any) bool {
		hides := u.host.Hides(who)
		if hides == nil {
			return nil
		}
		return func(request any) bool { return hides(request.(*host.Request)) }
	}}
	if err := u.host.Start(); err != nil {
		return nil, err
	}
	if g.users == nil {
		g.users = make(map[principal.Principal]*user)
	}
	g.users[who] = u
	u.follow.Go(func() {
		for status := range u.host.Watch(context.Background()) { // until the host is closed
			u.update(status)
		}
	})
	return u, nil
}

// Close ends the hosts.
func (g *Gateway) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, u := range g.users {
		u.host.Close()
		u.follow.Wait()
	}
}

// update makes the catalog match the list of a server.
func (u *user) update(status host.ServerStatus) {
	u.mu.Lock()
	defer u.mu.Unlock()
	before := u.known[status.Name]
	if status.State != host.Removed && (status.Version <= before.Version || status.Revision == "") {
		return // known, or not ready yet: a server that is down keeps its tools
	}
	u.known[status.Name] = status
	for _, tool := range before.Tools {
		u.catalog.RemoveTool(tool.Name)
	}
	for _, tool := range status.Tools {
		if err := u.add(tool); err != nil {
			log.Printf("tool %s: %v", tool.Name, err)
		}
	}
}

// add adds a tool. A call that waits for the user must not begin again with the answer, so it is parked.
func (u *user) add(tool host.Tool) error {
	merged := tool.Definition
	merged.Name = tool.Name
	request := &host.Request{Method: mcp.MethodCallTool, Kind: host.KindTool, Server: tool.Server,
		Name: tool.Definition.Name, Tool: &tool.Definition}
	return u.catalog.RegisterTool(merged, func(ctx context.Context, in json.RawMessage) (*mcp.CallToolResult, error) {
		progress := client.WithProgress(func(done, total float64, text string) {
			_ = server.Progress(ctx, done, total, text)
		})
		return u.host.Call(ctx, tool.Name, in, progress, client.WithUndecodedText(),
			client.WithLogLevel(server.LogLevel(ctx)))
	}, server.Forwarded(nil), server.Parked(), server.Listed(u.listed, request))
}

// ask passes the questions of servers to the client whose call they serve.
func ask[Question, Answer any](method string) func(context.Context, *Question) (*Answer, error) {
	return func(ctx context.Context, question *Question) (*Answer, error) {
		params, err := json.Marshal(question)
		if err != nil {
			return nil, err
		}
		raw, err := server.RequestInput(ctx, method, params)
		if err != nil {
			return nil, err
		}
		answer := new(Answer)
		return answer, json.Unmarshal(raw, answer)
	}
}

// dialer passes on what servers ask and log, in the call that is in flight. With one host for several users, each call
// would have a host.Caller with these functions instead.
var dialer = client.Dialer{
	Elicit: ask[mcp.ElicitParams, mcp.ElicitResult](mcp.MethodElicit),
	Sample: ask[mcp.CreateMessageParams, mcp.CreateMessageResult](mcp.MethodCreateMessage),
	OnLog:  func(ctx context.Context, m mcp.LoggingMessageParams) { _ = server.Log(ctx, m) },
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

// programs are the programs of each user: commands with arguments, by the name of the server.
type programs map[string]map[string][]string

func (p programs) of(who principal.Principal) (servers []host.ServerConfig) {
	for name, command := range p[who.Subject()] {
		servers = append(servers, host.ServerConfig{Name: name, Target: client.Command(command[0], command[1:]...)})
	}
	return servers
}

func main() {
	keys := flag.String("keys", "keys.json", "the file with the digests of the API keys")
	users := flag.String("users", "users.json", `the programs of each user: {"ada": {"notes": ["./notes", "-dir", "ada"]}}`)
	address := flag.String("http", "127.0.0.1:8080", "the address to serve on")
	flag.Parse()
	content, err := os.ReadFile(*users)
	var all programs
	if err = errors.Join(err, json.Unmarshal(content, &all)); err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	g := &Gateway{Servers: all.of}
	defer g.Close()
	s := &server.Server{Name: "owngateway", Version: "1.0.0", Catalogs: g.Catalogs,
		Auth: &auth.ProtectedResource{Verifier: &auth.Keys{File: *keys}}}
	if err := s.ListenAndServe(ctx, *address); err != nil {
		log.Print(err)
	}
}
