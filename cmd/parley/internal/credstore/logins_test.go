package credstore

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/client"
)

func TestLoginErrorContainsAQuotedCommand(t *testing.T) {
	for _, test := range []struct {
		request oauth.AuthorizationRequest
		want    string
	}{
		{oauth.AuthorizationRequest{Server: "https://example.com/mcp", Scopes: []string{"a"}},
			"requires a login; run: parley login https://example.com/mcp"},
		{oauth.AuthorizationRequest{Server: "https://example.com/mcp", Scopes: []string{"a"}, Previous: []string{"a"}},
			"has expired; run: parley login https://example.com/mcp"},
		{oauth.AuthorizationRequest{Server: "https://example.com/mcp", Scopes: []string{"a", "b", "c:d"},
			Previous: []string{"a"}},
			"with the scope b c:d; run: parley login --scope 'b c:d' https://example.com/mcp"},
		{oauth.AuthorizationRequest{Server: "https://example.com/mcp?a=1&b=$(id)", Scopes: []string{"a"}},
			"run: parley login 'https://example.com/mcp?a=1&b=$(id)'"},
		{oauth.AuthorizationRequest{Server: "https://example.com/mcp", Scopes: []string{"';id;'"},
			Previous: []string{}},
			`--scope ''\'';id;'\''' https://example.com/mcp`},
		{oauth.AuthorizationRequest{Server: "https://example.com/mcp", Scopes: []string{"--port=1"},
			Previous: []string{}},
			`--scope --port=1 https://example.com/mcp`},
	} {
		err := withLoginAdvice(&oauth.InteractionError{Request: test.request}, "")
		if !strings.HasSuffix(err.Error(), test.want) || !errors.Is(err, oauth.ErrInteraction) {
			t.Errorf("error %q, want the suffix %q", err, test.want)
		}
	}
}

// Two servers of a configuration can have one URL and credentials of two users.
func TestServersAtOneURLKeepTheirOwnHeaders(t *testing.T) {
	const url = "https://example.com/mcp"
	t.Setenv("PARLEY_CONFIG_DIR", t.TempDir())
	t.Setenv("PARLEY_NO_KEYRING", "1")
	a := new(Authorizer)
	header := func(fields ...string) http.Header {
		h := make(http.Header)
		for i := 0; i < len(fields); i += 2 {
			h.Set(fields[i], fields[i+1])
		}
		return h
	}
	targets := []http.Header{header("Authorization", "Bearer one", "X-Team", "a"), header("X-Api-Key", "k"), nil}
	var all []client.Target
	for _, h := range targets {
		all = append(all, &client.HTTPTarget{URL: url, Header: h})
	}
	if err := a.SetTargets(t.Context(), all...); err != nil {
		t.Fatal(err)
	}
	for i, sent := range []http.Header{
		header("Authorization", "Bearer one", "Accept", "*/*"), // a client can move another header, such as Host
		header("X-Api-Key", "k", "Authorization", "Bearer stored"),
		header("Authorization", "Bearer stored"),
	} {
		c, given := a.clientOf(&http.Request{Header: sent}, url)
		if logins := c != nil; logins != (i > 0) || !maps.EqualFunc(given, targets[i], slices.Equal) {
			t.Errorf("request %d: uses a login: %t, headers of the user: %v", i, logins, given)
		}
	}
}
