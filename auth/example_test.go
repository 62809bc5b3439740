package auth_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/principal"
)

// A server that is not mounted at "/" needs its metadata mounted, too.
func ExampleProtectedResource_MetadataHandler() {
	resource := jwt.Protect(&auth.ProtectedResource{
		URI:     "https://example.com/mcp",
		Issuers: []string{"https://as.example.com"},
		Scopes:  []string{"mcp"},
	})
	mux := http.NewServeMux()
	mux.Handle(auth.MetadataPath, resource.MetadataHandler())
	mux.Handle(auth.MetadataPath+"/", resource.MetadataHandler())
	// mux.Handle("/mcp", &server.Server{Auth: resource})
}

// A handler whose scopes depend on the arguments, and a context to test it with.
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
