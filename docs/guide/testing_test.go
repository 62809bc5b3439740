package guide_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
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

func TestCallerIsKnown(t *testing.T) {
	c := mcptest.DialHTTP(t, newNotes(), func(d *client.Dialer) {
		d.Header = http.Header{"Authorization": {"Bearer ada"}}
	})
	text, err := client.CallTool[string](t.Context(), c, "whoami", nil)
	if err != nil || text != "ada" {
		t.Errorf("%q, %v", text, err)
	}
}

// A handler is a function: without a client, it can use PrincipalOf, but neither ask nor report progress.
func TestHandlerWithoutClient(t *testing.T) {
	text, err := describeCaller(t.Context(), struct{}{})
	if err != nil || text != "anonymous" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := server.Elicit[confirmation](t.Context(), "Sure?"); !errors.Is(err, call.ErrNoCall) {
		t.Error(err)
	}
}

func describeCaller(ctx context.Context, _ struct{}) (string, error) {
	return server.PrincipalOf(ctx).String(), nil
}

// In memory, Auth does not apply, and the caller has no name.
func TestCallerInMemoryHasNoName(t *testing.T) {
	c := mcptest.Dial(t, newNotes())
	must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, "whoami", nil))(t), "")
}
