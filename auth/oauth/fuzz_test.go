package oauth_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/auth/oauth"
)

func FuzzCallback(f *testing.F) {
	for _, seed := range []string{
		"http://127.0.0.1/callback?code=c&state=s&iss=https%3A%2F%2Fas.example", "code=c&state=s", "?error=access_denied&state=s",
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
	for _, resource := range []string{"https://mcp.example/a/mcp", "https://mcp.example", "https://mcp.example/a", "HTTPS://MCP.example:443/a/mcp/", "https://mcp.example/a/mcp/../x"} {
		f.Add(`{"resource":"` + resource + `","authorization_servers":["https://as.example"]}`)
	}
	f.Fuzz(func(t *testing.T, body string) {
		resource, err := oauth.ParseResource([]byte(body), root, server)
		if err != nil {
			return
		}
		u, err := url.Parse(resource)
		if err != nil || !strings.EqualFold(u.Hostname(), "mcp.example") || u.Port() != "" && u.Port() != "443" || u.Fragment != "" {
			t.Fatalf("%q is accepted as the resource of %s", resource, server)
		}
		if p := strings.TrimRight(u.EscapedPath(), "/"); p != "" && p != "/a/mcp" {
			t.Fatalf("%q is accepted as the resource of %s, from the root", resource, server)
		}
	})
}

func FuzzASMetadata(f *testing.F) {
	server, _ := url.Parse("https://mcp.example/mcp")
	for _, endpoint := range []string{"https://as.example/token", "http://as.example/token", "javascript:x", "https://u@as.example/", "https:as.example"} {
		f.Add(`{"issuer":"https://as.example","token_endpoint":"` + endpoint + `","authorization_endpoint":"https://as.example/a"}`)
	}
	f.Fuzz(func(t *testing.T, body string) {
		endpoints, err := oauth.ParseServer([]byte(body), "https://as.example", server)
		if err != nil {
			return
		}
		for _, e := range endpoints {
			if u, err := url.Parse(e); e != "" && (err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil) {
				t.Fatalf("%q is accepted as an endpoint", e)
			}
		}
	})
}
