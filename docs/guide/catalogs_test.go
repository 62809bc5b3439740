package guide_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// projects has the catalogs of sessions.
type projects struct {
	mu       sync.Mutex
	sessions map[string]*server.Catalog
}

// of returns the catalog of the caller's session, or of the caller if there is no session.
func (p *projects) of(ctx context.Context) *server.Catalog {
	id := server.PrincipalOf(ctx).Key() + " " + server.SessionOf(ctx).ID() // the ID is "" without a session
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sessions[id] == nil {
		p.sessions[id] = new(server.Catalog)
	}
	return p.sessions[id]
}

type project struct {
	Name string `json:"name"`
}

func newBuilder() *server.Server {
	p := &projects{sessions: make(map[string]*server.Catalog)}
	s := &server.Server{Name: "builder", Catalogs: func(ctx context.Context) ([]*server.Catalog, error) {
		return []*server.Catalog{p.of(ctx)}, nil
	}}
	server.AddTool(s, mcp.Tool{Name: "open", Description: "Open a project, whose tools are added"},
		func(ctx context.Context, in project) (string, error) {
			c := p.of(ctx)
			c.RemoveTool("build")
			server.AddTool(c, mcp.Tool{Name: "build", Description: "Build " + in.Name},
				func(context.Context, struct{}) (string, error) { return in.Name + " is built", nil })
			return "opened", nil
		})
	return s
}

func TestSessionsHaveTheirOwnTools(t *testing.T) {
	s, clients := newBuilder(), make(map[string]*client.Client)
	for _, name := range []string{"compiler", "linker"} {
		clients[name] = mcptest.DialHTTP(t, s, mcptest.WithRevision(mcp.V20251125))
		must.Get(client.CallTool[string](t.Context(), clients[name], "open", project{name}))(t)
	}
	for name, c := range clients {
		must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, "build", nil))(t), name+" is built")
		var listed []string
		for tool, err := range c.Tools(t.Context()) {
			listed = append(listed, must.Get(tool, err)(t).Description)
		}
		must.CheckContains(t, strings.Join(listed, ", "), "Build "+name)
	}
}

// plans has the catalog of the plan that each user has bought.
type plans struct {
	free, paid server.Catalog

	mu    sync.Mutex
	users map[string]bool // who has paid, by principal.Principal.Key
}

func (p *plans) of(ctx context.Context) ([]*server.Catalog, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users[server.PrincipalOf(ctx).Key()] {
		return []*server.Catalog{&p.paid, &p.free}, nil // of two tools with one name, the caller has that of paid
	}
	return []*server.Catalog{&p.free}, nil
}

func newShop(p *plans) *server.Server {
	s := &server.Server{Name: "shop", Catalogs: p.of}
	server.AddTool(&p.free, mcp.Tool{Name: "search"}, answers("10 results"))
	server.AddTool(&p.paid, mcp.Tool{Name: "search"}, answers("1000 results"))
	server.AddTool(s, mcp.Tool{Name: "upgrade"}, func(ctx context.Context, _ struct{}) (string, error) {
		who := server.PrincipalOf(ctx)
		p.mu.Lock()
		p.users[who.Key()] = true
		p.mu.Unlock()
		s.CatalogsChanged(who) // the clients of this user read the list again
		return "thank you", nil
	})
	return s
}

func answers(text string) func(context.Context, struct{}) (string, error) {
	return func(context.Context, struct{}) (string, error) { return text, nil }
}

func TestUpgradedUserHasOtherTools(t *testing.T) {
	c := mcptest.Dial(t, newShop(&plans{users: make(map[string]bool)}))
	must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, "search", nil))(t), "10 results")
	for change, err := range c.Watch(t.Context(), client.WatchFilter{Tools: true}) {
		must.Do(t, err)
		if !change.Resync {
			break
		}
		must.Get(client.CallTool[string](t.Context(), c, "upgrade", nil))(t)
	}
	must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, "search", nil))(t), "1000 results")
}

type document struct {
	Owner string `json:"owner"`
}

// The scope depends on an argument, so the handler requires it.
func deleteDocument(ctx context.Context, in document) (string, error) {
	if in.Owner != server.PrincipalOf(ctx).Subject() {
		if err := auth.Require(ctx, "documents:admin"); err != nil {
			return "", err // a protocol error, with the challenge for the scope
		}
	}
	return "deleted", nil
}

func TestScopeOfAnArgumentIsRequired(t *testing.T) {
	s := new(server.Server)
	server.AddTool(s, mcp.Tool{Name: "delete"}, deleteDocument)
	_, err := client.CallTool[string](t.Context(), mcptest.Dial(t, s), "delete", document{"ada"})
	must.CheckContains(t, err.Error(), "documents:admin")
}
