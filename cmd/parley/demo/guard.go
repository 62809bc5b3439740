package demo

import (
	"context"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// The scopes of the demo server where calls are authorized.
const (
	ScopeUse   = "demo"        // for every request
	ScopeNotes = "notes:write" // for the tool note, beside
)

// Scopes returns all scopes of the demo server.
func Scopes() []string { return []string{ScopeUse, ScopeNotes} }

// NewGuarded returns the demo server for callers who have logged in: the tool note needs a
// scope of its own, and the tool whoami tells who they are.
func NewGuarded(version string) *server.Server {
	s := newServer(version, server.RequireScopes(ScopeUse, ScopeNotes))
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(bool)}
	server.AddTool(s, mcp.Tool{Name: "whoami", Title: "Who am I?", Description: "Tell who is calling, and what they may", Annotations: readOnly}, whoami)
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
