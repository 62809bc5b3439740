package guide_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// newNotes returns a server whose callers are named by their tokens.
func newNotes() *server.Server {
	s := &server.Server{Auth: &auth.ProtectedResource{Verifier: auth.VerifierFunc(
		func(_ context.Context, token string) (*auth.Info, error) {
			who, err := principal.New("notes", token, "")
			return &auth.Info{Principal: who}, err
		})}}
	server.AddTool(s, mcp.Tool{Name: "whoami"}, func(ctx context.Context, _ struct{}) (string, error) {
		return server.PrincipalOf(ctx).Subject(), nil
	})
	return s
}

// token is the access token of each request that it sends.
type token string

// RoundTrip implements http.RoundTripper.
func (t token) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(t))
	return http.DefaultTransport.RoundTrip(r)
}

func TestCallerIsKnown(t *testing.T) {
	c := mcptest.DialHTTP(t, newNotes(), func(d *client.Dialer) {
		d.HTTPClient = &http.Client{Transport: token("ada")}
	})
	text, err := client.CallTool[string](t.Context(), c, "whoami", nil)
	if err != nil || text != "ada" {
		t.Errorf("%q, %v", text, err)
	}
}

// In memory, Auth does not apply, and the caller has no name.
func TestCallerInMemoryHasNoName(t *testing.T) {
	c := mcptest.Dial(t, newNotes())
	must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, "whoami", nil))(t), "")
}
