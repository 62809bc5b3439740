package auth_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/principal"
)

// If a server is not mounted at "/", its metadata must be mounted, too.
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

// The callers of this server use API keys; there is no authorization server. The program contains the
// digests of the keys; the field File reads them from a file that parley key writes.
func ExampleKeys() {
	keys := &auth.Keys{List: []auth.Key{
		{User: "ada", SHA256: "30c204e736c906d0ea3bd33c393f8e4e88a9d37c9afc99b5e87cb958dd240431", Groups: []string{"finance"}},
	}}
	resource := &auth.ProtectedResource{Verifier: keys}
	// s := &server.Server{Auth: resource}

	for _, authorization := range []string{"", "Bearer 4c6f7665"} {
		r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
		r.Header.Set("Authorization", authorization)
		response := http.Header{}
		info, err := resource.Authenticate(response, r)
		if rejection, ok := errors.AsType[*auth.Rejection](err); ok {
			fmt.Println(rejection.Status, response.Get("WWW-Authenticate"))
			continue
		}
		fmt.Println(info.Principal.Subject())
	}
	// Output:
	// 401 Bearer realm="mcp"
	// ada
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
