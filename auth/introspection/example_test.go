package introspection_test

import (
	"fmt"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/introspection"
)

// Only the authorization server can read the tokens of this server.
func ExampleVerifier() {
	resource := &auth.ProtectedResource{
		URI:     "https://example.com/mcp",
		Issuers: []string{"https://as.example.com"},
		Verifier: &introspection.Verifier{
			Endpoint: "https://as.example.com/introspect", Issuer: "https://as.example.com",
			ClientID: "mcp-server", ClientSecret: "from the environment",
		},
	}
	fmt.Println(resource.Check())
	// Output: <nil>
}
