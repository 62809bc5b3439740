package gateway_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// protect lets a server accept each token as the name of a user, and serves it over HTTP.
func protect(t *testing.T, s *server.Server) (url string) {
	endpoint := httptest.NewUnstartedServer(s)
	url = "http://" + endpoint.Listener.Addr().String() + "/mcp"
	s.Auth = &auth.ProtectedResource{
		URI: url, Issuers: []string{"https://issuer.example"},
		Verifier: auth.VerifierFunc(func(_ context.Context, token string) (*auth.Info, error) {
			who, err := principal.New("https://issuer.example", token, "")
			return &auth.Info{Principal: who, Audience: []string{url}, Expiry: time.Now().Add(time.Hour)}, err
		}),
	}
	endpoint.Start()
	t.Cleanup(endpoint.Close)
	return url
}

// as returns the target of a user of a server that protect has changed.
func as(user, url string) client.Target {
	return &client.HTTPTarget{URL: url, Header: http.Header{"Authorization": {"Bearer " + user}}}
}

// Two programs of a user that support different input requests have a session each with the server.
func TestSessionServersSeeTheCapabilitiesOfTheProgramsOfAPrincipal(t *testing.T) {
	s := &server.Server{Name: "gateway", Version: "1"}
	gatewaytest.Run(t, &host.Host{Servers: []host.ServerConfig{httpConfig(t, "up", declaring())}, Dialer: client.Dialer{Revision: mcp.V20251125}}, s)
	url := protect(t, s)
	form := func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) { return nil, nil }
	programs := map[string]client.Dialer{
		`{}`:                          {},
		`{"elicitation":{"form":{}}}`: {Elicit: form},
		`{"elicitation":{"url":{}}}`:  {ElicitURL: form},
	}
	for range 2 {
		for want, d := range programs {
			d.Revision, d.Logger = mcp.V20260728, quiet
			c, err := d.Dial(t.Context(), as("ada", url))
			if err != nil {
				t.Fatal(err)
			}
			got, err := client.CallTool[string](t.Context(), c, "up__declared", nil)
			if got = strings.Replace(got, `"elicitation":{}`, `"elicitation":{"form":{}}`, 1); err != nil || !sameJSON(got, want) {
				t.Errorf("%s, %v, want %s", got, err, want)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
