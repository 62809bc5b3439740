package oauth_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parley-mcp/parley/auth/oauth"
)

// trace records the steps of c as texts.
func trace(c *oauth.Client) *[]string {
	var mu sync.Mutex
	steps := new([]string)
	c.Trace = func(s oauth.Step) {
		mu.Lock()
		defer mu.Unlock()
		*steps = append(*steps, fmt.Sprintf("%s: %s %s %v %s -> %d %v %s %v",
			s.Name, s.Method, s.URL, s.RequestHeader, s.RequestBody, s.Status, s.ResponseHeader, s.ResponseBody, s.Err))
	}
	return steps
}

func TestTraceHasEveryStepOfALogin(t *testing.T) {
	for name, part := range map[string]func(redirect string) string{
		"URL":   func(redirect string) string { return redirect },
		"query": func(redirect string) string { _, query, _ := strings.Cut(redirect, "?"); return query },
	} {
		t.Run("the interaction returns the "+name, func(t *testing.T) { traceLogin(t, part) })
	}
}

// traceLogin logs in and out. Part returns the part of the redirect that the interaction returns.
func traceLogin(t *testing.T, part func(redirect string) string) {
	w := newEnvironment(t)
	c := w.client()
	c.Interaction.(*oauth.Manual).Open = func(ctx context.Context, url string) (string, error) {
		redirect, err := openPage(ctx, url)
		return part(redirect), err
	}
	steps := trace(c)
	if err := c.Login(t.Context(), w.url()); err != nil {
		t.Fatal(err)
	}
	if err := c.Logout(t.Context(), w.url()); err != nil {
		t.Fatal(err)
	}
	want := [][]string{
		{"challenge: POST " + w.url(), `"method":"ping"`, "-> 401", "resource_metadata="},
		{"resource metadata: GET " + w.mcp.URL + w.resourcePath, "-> 200", `"authorization_servers"`},
		{"authorization server metadata: GET " + w.as.URL + w.issuerPath, "-> 200", `"token_endpoint"`},
		{"registration: POST " + w.as.URL + "/register", `"client_name"`, "-> 201", `"client_id":"client"`},
		{"authorization: GET " + w.as.URL + "/authorize?", "code_challenge=", "state=redacted", "/callback?", "code=redacted"},
		{"token: POST " + w.as.URL + "/token", "grant_type=authorization_code", "code=redacted", "-> 200", `"token_type":"Bearer"`, `"access_token":"redacted"`},
		{"authorization server metadata: "},
		{"revocation: POST " + w.as.URL, "token=redacted"},
	}
	for i, parts := range want {
		for _, part := range parts {
			if i < len(*steps) && !strings.Contains((*steps)[i], part) {
				t.Errorf("step %d has no %q: %s", i, part, (*steps)[i])
			}
		}
	}
	if len(*steps) != len(want) {
		t.Errorf("%d steps, want %d:\n%s", len(*steps), len(want), strings.Join(*steps, "\n"))
	}
	if i := slices.IndexFunc(*steps, func(s string) bool { return strings.Contains(s, secret) }); i >= 0 {
		t.Errorf("step %d contains a secret: %s", i, (*steps)[i])
	}
}

func TestTraceHasTheErrorOfAStep(t *testing.T) {
	w := newEnvironment(t)
	w.as.Close()
	c := w.client()
	steps := trace(c)
	if err := c.Login(t.Context(), w.url()); err == nil {
		t.Fatal("no error")
	}
	last := (*steps)[len(*steps)-1]
	if !strings.HasPrefix(last, "authorization server metadata: ") || !strings.Contains(last, "-> 0") || strings.HasSuffix(last, "<nil>") {
		t.Error(last)
	}
}
