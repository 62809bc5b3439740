package redirect_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/redirect"
)

func TestRedirectPolicies(t *testing.T) {
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	to := func(path, target string, status int) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target, status) })
	}
	to("/once", "/end", http.StatusTemporaryRedirect)
	to("/twice", "/once", http.StatusTemporaryRedirect)
	to("/found", "/end", http.StatusFound)
	to("/away", other.URL, http.StatusTemporaryRedirect)
	mux.HandleFunc("/end", func(http.ResponseWriter, *http.Request) {})
	for _, c := range []struct {
		name   string
		policy func(*http.Request, []*http.Request) error
		method string
		path   string
		want   int
	}{
		{"none", redirect.None, "GET", "/once", http.StatusTemporaryRedirect},
		{"same origin", redirect.SameOrigin(1), "GET", "/once", http.StatusOK},
		{"over the limit", redirect.SameOrigin(1), "GET", "/twice", http.StatusTemporaryRedirect},
		{"within the limit", redirect.SameOrigin(2), "POST", "/twice", http.StatusOK},
		{"another origin", redirect.SameOrigin(3), "GET", "/away", http.StatusTemporaryRedirect},
		{"another method", redirect.SameOrigin(3), "POST", "/found", http.StatusFound},
	} {
		client := http.Client{CheckRedirect: c.policy}
		req := must.Get(http.NewRequestWithContext(t.Context(), c.method, server.URL+c.path, http.NoBody))(t)
		res := must.Get(client.Do(req))(t)
		res.Body.Close()
		must.CheckEqual(t, res.StatusCode, c.want, c.name, c.method, c.path)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestTargetHasNoSecrets(t *testing.T) {
	from, _ := http.NewRequest(http.MethodPost, "https://example.com/mcp?key=secret", nil)
	for location, want := range map[string]string{
		"/mcp/":                                "https://example.com/mcp/",
		"http://u:p@other.example/a%2Fb?c=d#e": "http://other.example/a%2Fb",
		"":                                     "",
		"https://other.example/\u202e\"<":      "https://other.example/%E2%80%AE%22%3C",
	} {
		resp := &http.Response{StatusCode: http.StatusPermanentRedirect, Header: http.Header{"Location": {location}},
			Request: from}
		must.CheckEqual(t, redirect.Target(resp), want, location)
		if resp.StatusCode = http.StatusCreated; redirect.Target(resp) != "" {
			t.Errorf("%q: status 201 is a redirect", location)
		}
	}
}
