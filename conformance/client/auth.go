package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/client"
)

// told is what the contexts of scenarios about authorization hold.
type told struct {
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

// documentURL is this client's identifier where documents are supported. Nobody
// fetches it.
const documentURL = "https://conformance-test.local/client-metadata.json"

// authorization is what a scenario about authorization needs.
func authorization(scenario, server string) (*oauth.Client, error) {
	var t told
	if text := os.Getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
		if err := json.Unmarshal([]byte(text), &t); err != nil {
			return nil, fmt.Errorf("the scenario's context: %w", err)
		}
	}
	c := &oauth.Client{
		Name:        "parley-conformance",
		MetadataURL: documentURL,
		Interaction: &oauth.Manual{RedirectURI: "http://localhost:3000/callback", Open: visit},
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
			Issuer: t.IDPIssuer, TokenEndpoint: t.IDPTokenEndpoint, ClientID: t.IDPClientID,
			Subject: func(context.Context) (string, error) { return t.IDPIDToken, nil },
		}
	case "auth/wif-jwt-bearer":
		c.Grant = &oauth.Workload{Assertion: func(context.Context, string) (string, error) { return t.JWT, nil }}
	}
	return c, nil
}

// visit is the user and their browser: it looks where the authorization server sends
// them, and does not go there.
func visit(ctx context.Context, url string) (string, error) {
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
		return "", fmt.Errorf("the authorization endpoint answers with status %d and sends nobody back", resp.StatusCode)
	}
	return callback, nil
}

// isAuthorization reports whether a scenario is about authorization.
func isAuthorization(scenario string) bool { return strings.HasPrefix(scenario, "auth/") }

// callTestTool is what a client does once it is let in.
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

// mustBeRefused are the scenarios in which the client has to give up.
var mustBeRefused = map[string]error{
	"auth/resource-mismatch":        oauth.ErrResourceMismatch,
	"auth/iss-supported-missing":    oauth.ErrIssuerMismatch,
	"auth/iss-wrong-issuer":         oauth.ErrIssuerMismatch,
	"auth/iss-unexpected":           oauth.ErrIssuerMismatch,
	"auth/iss-normalized":           oauth.ErrIssuerMismatch,
	"auth/metadata-issuer-mismatch": oauth.ErrIssuerMismatch,
	"auth/scope-retry-limit":        oauth.ErrInsufficientScope,
}

// asRefused turns the error that a scenario has to end with into success, and its
// absence into an error.
func asRefused(scenario string, err error) error {
	want := mustBeRefused[scenario]
	switch {
	case want == nil:
		return err
	case err == nil:
		return errors.New("the client was let in and should have given up")
	case errors.Is(err, want):
		fmt.Fprintln(os.Stderr, "client: as it should be:", err)
		return nil
	}
	return err
}
