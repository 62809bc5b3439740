package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// A server that requires access tokens, which a function of the program verifies. To
// verify JSON Web Tokens, leave Verifier empty and use jwt.Protect.
func ExampleServer_authorization() {
	s := &server.Server{
		Auth: &auth.ProtectedResource{
			URI:     "https://mcp.example.com/mcp",
			Issuers: []string{"https://as.example.com"},
			Scopes:  []string{"notes:read"},
			Verifier: auth.VerifierFunc(func(_ context.Context, token string) (*auth.Info, error) {
				if token != "t-1" {
					return nil, &auth.InvalidTokenError{Reason: "unknown token"}
				}
				ada, err := principal.New("https://as.example.com", "ada", "editor")
				return &auth.Info{Principal: ada, Scopes: []string{"notes:read"},
					Audience: []string{"https://mcp.example.com/mcp"}}, err
			}),
		},
	}
	server.AddTool(s, mcp.Tool{Name: "whoami"}, func(ctx context.Context, _ struct{}) (string, error) {
		return server.PrincipalOf(ctx).Subject(), nil
	})
	server.AddTool(s, mcp.Tool{Name: "erase"}, func(context.Context, struct{}) (string, error) {
		return "gone", nil
	}, server.RequireScopes("notes:write"))

	endpoint := httptest.NewServer(s)
	defer endpoint.Close()
	call := func(tool, token string) {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","_meta":{` +
			`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
		req, _ := http.NewRequest(http.MethodPost, endpoint.URL, strings.NewReader(body))
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool, "Authorization": token,
		} {
			req.Header.Set(name, value)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			panic(err)
		}
		res.Body.Close()
		fmt.Println(res.StatusCode)
		if challenge := res.Header.Get("Www-Authenticate"); challenge != "" {
			fmt.Println(strings.ReplaceAll(challenge, ", ", "\n  "))
		}
	}
	call("whoami", "Bearer t-1")
	call("whoami", "Bearer t-2")
	call("erase", "Bearer t-1")
	// Output:
	// 200
	// 401
	// Bearer error="invalid_token"
	//   error_description="unknown token"
	//   resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"
	//   scope="notes:read"
	// 403
	// Bearer error="insufficient_scope"
	//   error_description="insufficient scope: the call needs notes:read notes:write"
	//   resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"
	//   scope="notes:read notes:write"
}

// Callers on standard input have no token: LocalScopes are their scopes.
func ExampleRequireScopes() {
	s := &server.Server{LocalScopes: []string{"notes:read"}}
	read := func(context.Context, struct{}) (string, error) { return "buy milk", nil }
	server.AddTool(s, mcp.Tool{Name: "read"}, read, server.RequireScopes("notes:read"))
	server.AddTool(s, mcp.Tool{Name: "erase"}, read, server.RequireScopes("notes:write"))

	c := inMemory(s)
	defer c.Close()
	for _, tool := range []string{"read", "erase"} {
		fmt.Println(client.CallTool[string](context.Background(), c, tool, nil))
	}
	// Output:
	// buy milk <nil>
	//  tools/call: insufficient scope: the call needs notes:write (code -32600)
}
