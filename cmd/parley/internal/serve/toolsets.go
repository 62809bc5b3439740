package serve

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/cmd/parley/internal/serve/endpoint"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/config"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// toolsets serve the toolsets of the configuration, each at its own path below the endpoint. It is safe for
// concurrent use.
type toolsets struct {
	// newGateway returns the gateway of a toolset and its server, which is not protected yet.
	newGateway func() (*gateway.Gateway, *server.Server, error)
	protection *protection
	below      endpoint.Below
	ctx        context.Context // ends the gateways

	running sync.WaitGroup
	mu      sync.Mutex
	byName  map[string]*toolset
}

// toolset is one toolset that is served.
type toolset struct {
	config  config.Toolset
	server  *server.Server
	gateway *gateway.Gateway
	cancel  context.CancelFunc // ends the gateway
}

// gatewayToolset returns the selection of a toolset.
func gatewayToolset(t *config.Toolset) *gateway.Toolset {
	return &gateway.Toolset{Servers: t.HostServers(), Tools: t.Tools, Prompts: t.Prompts, Hide: t.Hide}
}

// prepare returns a function that replaces the toolsets that are served. Those that are the same continue.
func (t *toolsets) prepare(now []config.Toolset) (commit func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	byName := make(map[string]*toolset, len(now))
	var added []*toolset
	for _, c := range now {
		old := t.byName[c.Name]
		if old != nil && sameToolset(old.config, c) {
			byName[c.Name] = old
			continue
		}
		made, err := t.make(c)
		if err != nil {
			return nil, err
		}
		byName[c.Name], added = made, append(added, made)
	}
	return func() { t.replace(byName, added) }, nil
}

// replace serves the toolsets by their names. It starts those that are added, and stops those that are not served any
// more.
func (t *toolsets) replace(byName map[string]*toolset, added []*toolset) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, now := range added {
		ctx, cancel := context.WithCancel(t.ctx)
		now.cancel = cancel
		t.running.Go(func() { now.gateway.Run(ctx) })
	}
	for name, old := range t.byName {
		if byName[name] != old {
			t.stop(old)
		}
	}
	t.byName = byName
	servers := make(map[string]*server.Server, len(byName))
	for name, of := range byName {
		servers[name] = of.server
	}
	t.below.Set(servers)
}

// sameToolset reports whether two toolsets differ in their places in the files only.
func sameToolset(a, b config.Toolset) bool {
	a.Source, b.Source = "", ""
	return reflect.DeepEqual(a, b)
}

// make returns a toolset whose gateway does not run.
func (t *toolsets) make(c config.Toolset) (*toolset, error) {
	g, s, err := t.newGateway()
	if err != nil {
		return nil, err
	}
	g.Toolset = gatewayToolset(&c)
	if err := t.protection.limit(s, &c, "/"+c.Name); err != nil {
		return nil, err
	}
	if err := s.Check(); err != nil {
		return nil, err
	}
	return &toolset{config: c, server: s, gateway: g}, nil
}

// stop ends a toolset in the background, after its calls in flight.
func (t *toolsets) stop(old *toolset) {
	t.running.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), endpoint.ShutdownTimeout)
		defer cancel()
		_ = old.server.Shutdown(ctx) // its calls are cancelled after the time-out
		old.cancel()
	})
}

// protection is the authorization that the endpoint requires.
type protection struct {
	resource *auth.ProtectedResource // nil without --auth
	audit    *auditLog               // nil without an audit log
}

// limit protects the server of a toolset, whose path below the endpoint is path, and limits it to the principals
// of the toolset.
func (a *protection) limit(s *server.Server, c *config.Toolset, path string) error {
	if a.resource == nil {
		if len(c.Scopes) > 0 || c.Principals != nil {
			return fmt.Errorf("%s: toolset %q: scopes and principals require --auth; add --auth issuer=URL", c.Source,
				c.Name)
		}
		return nil
	}
	s.Auth = a.below(path, c.Scopes)
	if c.Principals != nil {
		s.Middleware = append(slices.Clone(s.Middleware), a.onlyFor(c))
	}
	return s.Auth.Check()
}

// onlyFor returns middleware that rejects the calls of principals who may not use a toolset, and records them.
func (a *protection) onlyFor(c *config.Toolset) call.Middleware {
	permitted := func(who principal.Principal) bool {
		return slices.ContainsFunc(c.Principals, func(p config.Principal) bool {
			return p.Subject == who.Subject() && (p.Issuer == "" || p.Issuer == who.Issuer())
		})
	}
	return func(next call.Handler) call.Handler {
		return func(ctx context.Context, asked *call.Call) (any, error) {
			if who := asked.Principal(); !permitted(who) {
				err := jsonrpc.Errorf(jsonrpc.CodeInvalidRequest, "the toolset %q is not for this user", c.Name)
				a.audit.record(ctx, "denied", who, "method", asked.Method(), "decision", "deny", "reason", err.Message,
					"outcome", "error")
				return nil, err
			}
			return next(ctx, asked)
		}
	}
}

// below returns the resource at a path below the endpoint, which requires more scopes.
func (a *protection) below(path string, scopes []string) *auth.ProtectedResource {
	r := a.resource
	uri := r.URI
	if uri != "" {
		uri = strings.TrimSuffix(uri, "/") + path
	}
	return &auth.ProtectedResource{
		URI: uri, Issuers: r.Issuers, Verifier: r.Verifier, Audiences: r.Audiences, Clients: r.Clients, DPoP: r.DPoP,
		RequireDPoP: r.RequireDPoP, Implies: r.Implies,
		Scopes: challenge.Union(r.Scopes, scopes), Name: r.Name, OnReject: r.OnReject,
	}
}
