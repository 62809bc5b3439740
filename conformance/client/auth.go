package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/client"
)

// authContext is the context of a scenario about authorization.
type authContext struct {
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	Issuer       string `json:"issuer"`
	PrivateKey   string `json:"private_key_pem"`
	Algorithm    string `json:"signing_algorithm"`

	IDPClientID      string `json:"idp_client_id"`
	IDPIDToken       string `json:"idp_id_token"`
	IDPIssuer        string `json:"idp_issuer"`
	IDPTokenEndpoint string `json:"idp_token_endpoint"`

	JWT string `json:"valid_jwt"`
}

// documentURL is the id of this client at authorization servers that support client ID metadata documents. The mock
// servers do not fetch it.
const documentURL = "https://conformance-test.local/client-metadata.json"

// newAuth returns the authorization of the client in a scenario.
func newAuth(scenario, server string) (*oauth.Client, error) {
	var t authContext
	if text := os.Getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
		if err := json.Unmarshal([]byte(text), &t); err != nil {
			return nil, fmt.Errorf("cannot decode MCP_CONFORMANCE_CONTEXT: %w", err)
		}
	}
	c := &oauth.Client{
		Name:        "parley-conformance",
		MetadataURL: documentURL,
		Interaction: user{},
	}
	if t.ClientID != "" {
		r := oauth.Registration{Issuer: t.Issuer, ClientID: t.ClientID, ClientSecret: t.ClientSecret}
		if r.Issuer == "" {
			r.Server = server
		}
		if t.PrivateKey != "" {
			key, err := oauth.ParseSigningKey([]byte(t.PrivateKey))
			if err != nil {
				return nil, err
			}
			key.Algorithm = t.Algorithm
			r.Key = key
		}
		c.Registrations = []oauth.Registration{r}
	}
	switch scenario {
	case "auth/client-credentials-jwt", "auth/client-credentials-basic":
		c.Grant = &oauth.ClientCredentials{}
	case "auth/enterprise-managed-authorization":
		c.Grant = &oauth.Enterprise{
			Registration:  oauth.Registration{Issuer: t.IDPIssuer, ClientID: t.IDPClientID},
			TokenEndpoint: t.IDPTokenEndpoint,
			Subject:       func(context.Context) (string, error) { return t.IDPIDToken, nil },
		}
	case "auth/wif-jwt-bearer":
		c.Grant = &oauth.Workload{Assertion: func(context.Context, string) (string, error) { return t.JWT, nil }}
	}
	return c, nil
}

// user is the oauth.Interaction of a user who agrees to everything.
type user struct{}

// Begin implements oauth.Interaction.
func (user) Begin(context.Context, string) (oauth.Flow, error) { return user{}, nil }

// RedirectURI implements oauth.Flow.
func (user) RedirectURI() string { return "http://localhost:3000/callback" }

// Close implements oauth.Flow.
func (user) Close() error { return nil }

// Authorize implements oauth.Flow: it does what a browser and its user do.
func (user) Authorize(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	browser := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := browser.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	callback := resp.Header.Get("Location")
	if callback == "" {
		return "", fmt.Errorf("authorization endpoint must redirect, got status %d", resp.StatusCode)
	}
	return callback, nil
}

// isAuthorization reports whether a scenario is about authorization.
func isAuthorization(scenario string) bool { return strings.HasPrefix(scenario, "auth/") }

// callTestTool calls every tool of the server.
func callTestTool(ctx context.Context, c *client.Client) error {
	all, err := tools(ctx, c)
	if err != nil {
		return err
	}
	for _, tool := range all {
		if err := must(ctx, c, tool.Name, struct{}{}); err != nil {
			return err
		}
	}
	return nil
}

// callAsTokensExpire calls every tool three times. The access tokens of these scenarios expire within three seconds.
func callAsTokensExpire(ctx context.Context, c *client.Client) error {
	for range 3 {
		if err := callTestTool(ctx, c); err != nil {
			return err
		}
		select {
		case <-time.After(3 * time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// wantErrors are the texts of the errors with which the client must end some scenarios.
var wantErrors = map[string]string{
	"auth/resource-mismatch":        "the metadata describes another resource",
	"auth/iss-supported-missing":    "unexpected issuer",
	"auth/iss-wrong-issuer":         "unexpected issuer",
	"auth/iss-unexpected":           "unexpected issuer",
	"auth/iss-normalized":           "unexpected issuer",
	"auth/metadata-issuer-mismatch": "unexpected issuer",
	"auth/scope-retry-limit":        "insufficient scope",
}

// checkError compares the error of a scenario with the wanted one. It returns nil if they agree.
func checkError(scenario string, err error) error {
	want := wantErrors[scenario]
	switch {
	case want == "":
		return err
	case err == nil:
		return fmt.Errorf("client got access, want the error %q", want)
	case strings.Contains(err.Error(), want):
		fmt.Fprintln(os.Stderr, "client: ended with the wanted error:", err)
		return nil
	}
	return err
}
