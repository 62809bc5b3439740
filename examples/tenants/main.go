// Command tenants is a server over HTTP with tools for each tenant, user and scope. Its callers
// use API keys; see ../apikeys for how to store them.
//
//	go run ./examples/tenants -http 127.0.0.1:8080
//	parley ls http://127.0.0.1:8080/mcp --header 'Authorization: Bearer key-of-ada'
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

type amount struct {
	Cents int `json:"cents" minimum:"1"`
}

type motto struct {
	Text string `json:"text" minLength:"1"`
}

// tenants contains the catalog of each tenant.
type tenants map[string]*server.Catalog

// of returns the catalogs of the caller. The tenant is the issuer of the caller's key or token.
func (t tenants) of(ctx context.Context) ([]*server.Catalog, error) {
	return []*server.Catalog{t[server.PrincipalOf(ctx).Issuer()]}, nil // a nil catalog is left out
}

func newServer() *server.Server {
	t := tenants{"acme": new(server.Catalog), "globex": new(server.Catalog)}
	s := &server.Server{Name: "tenants", Version: "1.0.0",
		Auth: &auth.ProtectedResource{Verifier: auth.VerifierFunc(verify)}, Catalogs: t.of}

	server.AddTool(s, mcp.Tool{Name: "prices", Description: "For every caller"},
		func(context.Context, struct{}) (string, error) { return "1 cent each", nil })
	server.AddTool(t["acme"], mcp.Tool{Name: "refund", Description: "For callers of acme"},
		func(_ context.Context, in amount) (string, error) {
			return fmt.Sprint(in.Cents, " cents refunded"), nil
		},
		server.RequireScopes("billing"))
	server.AddTool(s, mcp.Tool{Name: "add_motto", Description: "For ada: add a tool for the callers of her tenant"},
		func(ctx context.Context, in motto) (string, error) {
			catalog, ok := t[server.PrincipalOf(ctx).Issuer()]
			if !ok {
				return "", errors.New("your login belongs to no tenant")
			}
			err := catalog.RegisterTool(
				mcp.Tool{Name: "motto", Description: "For callers of a tenant, once ada has added it"},
				func(context.Context, json.RawMessage) (*mcp.CallToolResult, error) {
					return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(in.Text)}}, nil
				})
			return "added", err // fails if the tenant already has a motto
		},
		server.VisibleTo(func(caller principal.Principal, _ string) bool { return caller.Subject() == "ada" }))
	return s
}

// verify returns the caller with a key. A real server looks up the digest of the key in a store.
func verify(_ context.Context, key string) (*auth.Info, error) {
	known := map[string]struct {
		tenant, user string
		scopes       []string
	}{
		"key-of-ada":   {"acme", "ada", []string{"billing"}},
		"key-of-grace": {"acme", "grace", nil},
		"key-of-alan":  {"globex", "alan", nil},
	}
	caller, ok := known[key]
	if !ok {
		return nil, &auth.InvalidTokenError{Reason: "unknown API key"}
	}
	who, err := principal.New(caller.tenant, caller.user, "")
	return &auth.Info{Principal: who, Scopes: caller.scopes}, err
}

func main() {
	server.Main(newServer())
}
