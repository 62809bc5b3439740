package demo

import (
	"context"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// The scopes of the demo server with authorization.
const (
	ScopeUse   = "demo"        // for every request
	ScopeNotes = "notes:write" // for the tool note, in addition
)

// Scopes returns all scopes of the demo server.
func Scopes() []string { return []string{ScopeUse, ScopeNotes} }

// NewAuthorized returns the demo server for authorized callers: the tool note requires the
// scope ScopeNotes, and the tool whoami returns the caller's principal.
func NewAuthorized(version string) *server.Server {
	s := newServer(version, server.RequireScopes(ScopeUse, ScopeNotes))
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(bool)}
	server.AddTool(s, mcp.Tool{Name: "whoami", Title: "Who am I?", Description: "Return the identity and the scopes of the caller", Annotations: readOnly}, whoami)
	return s
}

type caller struct {
	Issuer  string   `json:"issuer"`
	Subject string   `json:"subject"`
	Client  string   `json:"client"`
	Scopes  []string `json:"scopes"`
}

func whoami(ctx context.Context, _ struct{}) (caller, error) {
	who := server.PrincipalOf(ctx)
	c := caller{Issuer: who.Issuer(), Subject: who.Subject(), Client: who.Client(), Scopes: []string{}}
	if info := auth.FromContext(ctx); info != nil {
		c.Scopes = append(c.Scopes, info.Scopes...)
	}
	return c, nil
}
