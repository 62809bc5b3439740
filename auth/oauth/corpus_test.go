package oauth_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/internal/corpus"
	"github.com/parley-mcp/parley/internal/must"
)

// Rule O12.
func TestAddressesOfTheCorpusAreJudgedAsRecorded(t *testing.T) {
	for _, c := range corpus.Cases(t, "rules/addresses") {
		a, err := netip.ParseAddr(c.Text(t))
		got := "forbidden"
		if err == nil && oauth.IsPublic(a) {
			got = "public"
		}
		must.CheckEqual(t, got, c.Want(), c.Place, c.Name, err)
	}
}

// Rule O6: the cases list the outcome at a server that does not promise the parameter iss, and at one
// that does.
func TestCallbacksOfTheCorpusAreJudgedAsRecorded(t *testing.T) {
	for _, c := range corpus.Cases(t, "rules/callbacks") {
		var got []string
		for _, promised := range []bool{false, true} {
			code, err := oauth.AcceptAuthorizationResponse(c.Text(t), "s", "https://as.example", promised)
			outcome := callbackOutcome(code, err)
			must.CheckThat(t, outcome == "error" || err == nil || !strings.Contains(err.Error(), "secret"),
				"%s: %s: the error contains the text of another party: %v", c.Place, c.Name, err)
			got = append(got, outcome)
		}
		must.CheckEqual(t, strings.Join(got, ", "), c.Want(), c.Place, c.Name)
	}
}

func callbackOutcome(code string, err error) string {
	var failed *oauth.ServerError
	switch {
	case err == nil && code == "c":
		return "code"
	case errors.Is(err, oauth.ErrState):
		return "state"
	case errors.Is(err, oauth.ErrIssuerMismatch):
		return "issuer"
	case errors.As(err, &failed):
		return "error"
	case errors.Is(err, oauth.ErrInvalidResponse):
		return "incomplete"
	}
	return fmt.Sprintf("%q, %v", code, err)
}

func TestResourceMetadataOfTheCorpus(t *testing.T) {
	server := &url.URL{Scheme: "https", Host: "mcp.example", Path: "/a/mcp"}
	root := server.ResolveReference(&url.URL{Path: "/.well-known/oauth-protected-resource"})
	fragments := map[string]string{"as": `"authorization_servers":["https://as.example"]`}
	for _, c := range corpus.Cases(t, "rules/resources") {
		var got []string
		for _, from := range []*url.URL{root.JoinPath("a", "mcp"), root} {
			_, err := oauth.ParseResource(c.Bytes(t, fragments), from, server)
			got = append(got, accepted(err))
		}
		must.CheckEqual(t, strings.Join(got, ", "), c.Want(), c.Place, c.Name)
	}
}

// Rule O5.
func TestServerMetadataOfTheCorpusIsJudgedAsRecorded(t *testing.T) {
	server := &url.URL{Scheme: "https", Host: "mcp.example", Path: "/a/mcp"}
	fragments := map[string]string{"issuer": `"issuer":"https://as.example"`,
		"token": `"token_endpoint":"https://as.example/token"`}
	for _, c := range corpus.Cases(t, "rules/servers") {
		_, err := oauth.ParseServer(c.Bytes(t, fragments), "https://as.example", server)
		must.CheckEqual(t, accepted(err), c.Want(), c.Place, c.Name, err)
	}
}

func accepted(err error) string {
	if err != nil {
		return "rejected"
	}
	return "accepted"
}

func FuzzCallback(f *testing.F) {
	for _, seed := range []string{
		"http://127.0.0.1/callback?code=c&state=s&iss=https%3A%2F%2Fas.example", "code=c&state=s",
		"?error=access_denied&state=s",
		"code=c&state=s&state=t", "code=c&state=s#x", "%zz", "code=c;state=s&state=s",
	} {
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, raw string, alwaysIss bool) {
		const state, issuer = "s", "https://as.example"
		code, err := oauth.AcceptAuthorizationResponse(raw, state, issuer, alwaysIss)
		if err != nil {
			return
		}
		_, query, found := strings.Cut(raw, "?")
		if !found {
			query = raw
		}
		query, _, _ = strings.Cut(query, "#")
		q, err := url.ParseQuery(query)
		if err != nil || code == "" || len(q["code"]) != 1 || len(q["state"]) != 1 || q.Get("state") != state ||
			q.Has("iss") && q.Get("iss") != issuer || !q.Has("iss") && alwaysIss || q.Get("error") != "" {
			t.Fatalf("%q is accepted as %q", raw, code)
		}
	})
}

func FuzzPRM(f *testing.F) {
	server, _ := url.Parse("https://mcp.example/a/mcp")
	root, _ := url.Parse("https://mcp.example/.well-known/oauth-protected-resource")
	for _, resource := range []string{"https://mcp.example/a/mcp", "https://mcp.example", "https://mcp.example/a",
		"HTTPS://MCP.example:443/a/mcp/", "https://mcp.example/a/mcp/../x"} {
		f.Add(`{"resource":"` + resource + `","authorization_servers":["https://as.example"]}`)
	}
	f.Fuzz(func(t *testing.T, body string) {
		resource, err := oauth.ParseResource([]byte(body), root, server)
		if err != nil {
			return
		}
		u, err := url.Parse(resource)
		must.That(t, err == nil && strings.EqualFold(u.Hostname(), "mcp.example") &&
			(u.Port() == "" || u.Port() == "443") && u.Fragment == "",
			"%q is accepted as the resource of %s", resource, server)
		p := strings.TrimRight(u.EscapedPath(), "/")
		must.That(t, p == "" || p == "/a/mcp", "%q is accepted as the resource of %s, from the root", resource, server)
	})
}

func FuzzASMetadata(f *testing.F) {
	server, _ := url.Parse("https://mcp.example/mcp")
	for _, endpoint := range []string{"https://as.example/token", "http://as.example/token", "javascript:x",
		"https://u@as.example/", "https:as.example"} {
		f.Add(`{"issuer":"https://as.example","token_endpoint":"` + endpoint +
			`","authorization_endpoint":"https://as.example/a"}`)
	}
	f.Add(`{"issuer":"https://as.example/","token_endpoint":"https://as.example/token"}`)
	f.Add(`{"Issuer":"https://as.example","token_endpoint":"https://as.example/token"}`)
	f.Fuzz(func(t *testing.T, body string) {
		endpoints, err := oauth.ParseServer([]byte(body), "https://as.example", server)
		if err != nil {
			return
		}
		var document map[string]any
		if err := json.Unmarshal([]byte(body), &document); err != nil || document["issuer"] != "https://as.example" {
			t.Fatalf("%q is accepted as the metadata of another issuer, %v", body, err)
		}
		for i, name := range []string{"authorization_endpoint", "token_endpoint", "registration_endpoint",
			"revocation_endpoint"} {
			value, _ := document[name].(string)
			must.That(t, value == endpoints[i], "%q: %s is %q", body, name, endpoints[i])
		}
		for _, e := range endpoints {
			if u, err := url.Parse(e); e != "" && (err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil) {
				t.Fatalf("%q is accepted as an endpoint", e)
			}
		}
	})
}
