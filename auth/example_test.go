package auth_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/principal"
)

// A server below a path has its metadata mounted beside it.
func ExampleProtectedResource_MetadataHandler() {
	resource := &auth.ProtectedResource{
		URI:     "https://example.com/mcp",
		Issuers: []string{"https://as.example.com"},
		Scopes:  []string{"mcp"},
	}
	mux := http.NewServeMux()
	mux.Handle(auth.MetadataPath, resource.MetadataHandler())
	mux.Handle(auth.MetadataPath+"/", resource.MetadataHandler())
	// mux.Handle("/mcp", &server.Server{Auth: resource})
}

// Tokens that only their issuer can read.
func ExampleIntrospection() {
	resource := &auth.ProtectedResource{
		URI:     "https://example.com/mcp",
		Issuers: []string{"https://as.example.com"},
		Verifier: &auth.Introspection{
			Endpoint: "https://as.example.com/introspect", Issuer: "https://as.example.com",
			ClientID: "mcp-server", ClientSecret: "from a safe place",
		},
	}
	fmt.Println(resource.Check())
	// Output: <nil>
}

// A handler that finds out late what is needed, and a test of it.
func ExampleRequire() {
	open := func(ctx context.Context, file string) error {
		if file == "/etc/hosts" {
			return auth.Require(ctx, "files:system")
		}
		return nil
	}
	ada, _ := principal.New("https://as.example.com", "ada", "")
	ctx := auth.NewContext(context.Background(), &auth.Info{Principal: ada, Scopes: []string{"files:own"}})
	fmt.Println(open(ctx, "notes.txt"))
	fmt.Println(open(ctx, "/etc/hosts"))
	// Output:
	// <nil>
	// insufficient scope: the call needs files:system
}
