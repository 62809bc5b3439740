package oauth_test

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/devissuer"
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// This module's client, server and authorization server work together in every revision.
func TestClientCredentialsWithOwnServers(t *testing.T) {
	issuer, err := devissuer.Start(devissuer.Config{
		Scopes:  []string{"mcp"},
		Clients: []devissuer.Client{{ID: "machine", Secret: "its-secret", Name: "Machine"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer issuer.Close()
	for _, r := range revisions {
		t.Run(string(r), func(t *testing.T) {
			s := &server.Server{Name: "guarded", Version: "1"}
			server.AddTool(s, mcp.Tool{Name: "whoami"}, func(ctx context.Context, _ struct{}) (string, error) {
				return auth.FromContext(ctx).Principal.String(), nil
			})
			h := httptest.NewUnstartedServer(s)
			s.Auth = jwt.Protect(&auth.ProtectedResource{URI: "http://" + h.Listener.Addr().String() + "/mcp", Issuers: []string{issuer.URL()}, Scopes: []string{"mcp"}})
			h.Start()
			defer h.Close()
			defer s.Shutdown(context.Background())
			d := client.Dialer{Revision: r, Auth: &oauth.Client{
				Grant:         &oauth.ClientCredentials{},
				Registrations: []oauth.Registration{{Issuer: issuer.URL(), ClientID: "machine", ClientSecret: "its-secret"}},
			}}
			c, err := d.Dial(t.Context(), client.URL(s.Auth.URI))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			who, err := client.CallTool[string](t.Context(), c, "whoami", struct{}{})
			if err != nil || who == "" || who == "anonymous" {
				t.Fatalf("%q, %v", who, err)
			}
		})
	}
}
