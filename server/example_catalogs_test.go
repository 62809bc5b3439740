package server_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

type amount struct {
	Cents int `json:"cents" minimum:"1"`
}

// Each tenant has tools of its own. The tenant is the issuer of the caller's token.
func ExampleCatalog_tenants() {
	tenants := map[string]*server.Catalog{"https://acme.example": new(server.Catalog)}
	s := &server.Server{
		Name: "billing", // and Auth, which verifies tokens
		Catalogs: func(ctx context.Context) ([]*server.Catalog, error) {
			return []*server.Catalog{tenants[server.PrincipalOf(ctx).Issuer()]}, nil // nil for other tenants
		},
	}
	server.AddTool(s, mcp.Tool{Name: "prices"}, func(context.Context, struct{}) (string, error) { return "…", nil })
	// At any time: the clients of the tenant are notified.
	server.AddTool(tenants["https://acme.example"], mcp.Tool{Name: "refund"},
		func(_ context.Context, in amount) (string, error) {
			return fmt.Sprint(in.Cents, " cents refunded"), nil
		})
}

// Each session has the tools for the project that it has opened.
func ExampleCatalog_sessions() {
	projects := make(chan map[string]*server.Catalog, 1) // by session
	projects <- make(map[string]*server.Catalog)
	of := func(ctx context.Context) *server.Catalog {
		all := <-projects
		defer func() { projects <- all }()
		id := server.PrincipalOf(ctx).Key()
		if c := call.From(ctx); c != nil {
			id += " " + c.Source()
		}
		if all[id] == nil {
			all[id] = new(server.Catalog)
		}
		return all[id]
	}
	s := &server.Server{
		Name:     "builder",
		Catalogs: func(ctx context.Context) ([]*server.Catalog, error) { return []*server.Catalog{of(ctx)}, nil },
	}
	type project struct {
		Name string `json:"name"`
	}
	server.AddTool(s, mcp.Tool{Name: "open"}, func(ctx context.Context, in project) (string, error) {
		c := of(ctx)
		c.RemoveTool("build")
		server.AddTool(c, mcp.Tool{Name: "build", Description: "Build " + in.Name},
			func(context.Context, struct{}) (string, error) { return in.Name + " is built", nil })
		return "opened", nil
	})
}

// Each file of a directory is a plug-in with a catalog. A faulty file costs its own tools only.
func ExampleCatalog_plugins() {
	var loaded atomic.Pointer[[]*server.Catalog]
	s := &server.Server{
		Name:     "desk",
		Catalogs: func(context.Context) ([]*server.Catalog, error) { return *loaded.Load(), nil },
	}
	reload := func() { // when the directory has changed
		var all []*server.Catalog
		files, _ := filepath.Glob("plugins/*.txt")
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				continue
			}
			c := new(server.Catalog)
			err = c.RegisterTool(mcp.Tool{Name: strings.TrimSuffix(filepath.Base(file), ".txt")}, raw)
			if err == nil && len(text) > 0 {
				all = append(all, c)
			}
		}
		loaded.Store(&all)
		s.CatalogsChanged()
	}
	reload()
}
