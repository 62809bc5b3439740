package mcptest_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/devissuer"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// A client with a real token at a server that has nothing but its issuer's address: all
// that a session and a stateless request are made of goes through, questions too.
func TestATokenIsAllThatAClientNeeds(t *testing.T) {
	issuer, err := devissuer.Start(devissuer.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer issuer.Close()
	for _, r := range mcp.Revisions() {
		t.Run(string(r), func(t *testing.T) {
			s := &server.Server{
				Logger: slog.New(slog.DiscardHandler),
				Auth:   &auth.Resource{Issuers: []string{issuer.URL()}, Scopes: []string{"mcp"}},
			}
			server.AddTool(s, mcp.Tool{Name: "whoami"}, func(ctx context.Context, _ struct{}) (string, error) {
				if err := server.Progress(ctx, 1, 2, "looking"); err != nil {
					return "", err
				}
				if _, err := server.Roots(ctx); err != nil {
					return "", err
				}
				return server.PrincipalOf(ctx).String(), nil
			})
			endpoint := httptest.NewServer(s)
			defer endpoint.Close()
			defer func() {
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				defer cancel()
				_ = s.Shutdown(ctx)
			}()
			dial := func(audience string, scopes ...string) (*client.Client, error) {
				token, err := issuer.Token("ada", audience, scopes...)
				if err != nil {
					t.Fatal(err)
				}
				d := client.Dialer{Roots: func(context.Context) ([]mcp.Root, error) { return []mcp.Root{}, nil }}
				mcptest.Revision(r)(&d)
				return d.Dial(t.Context(), &client.HTTP{URL: endpoint.URL + "/mcp", Header: http.Header{"Authorization": {"Bearer " + token}}})
			}
			c, err := dial(endpoint.URL+"/mcp", "mcp")
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			who, err := c.CallTool(t.Context(), "whoami", nil, client.OnProgress(func(call.Progress) {}))
			if err != nil || who.IsError || who.Content[0].(*mcp.TextContent).Text != "ada at "+issuer.URL()+" through devissuer" {
				t.Errorf("%+v, %v", who, err)
			}
			for name, dial := range map[string]func() (*client.Client, error){
				"for another server": func() (*client.Client, error) { return dial(endpoint.URL+"/other", "mcp") },
				"without the scope":  func() (*client.Client, error) { return dial(endpoint.URL+"/mcp", "other") },
			} {
				if c, err := dial(); err == nil {
					c.Close()
					t.Errorf("a token %s lets somebody in", name)
				}
			}
		})
	}
}
