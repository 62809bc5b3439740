package trace_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/auth/oauth/internal/oauthtest"
	"github.com/parley-mcp/parley/internal/logintest"
	"github.com/parley-mcp/parley/internal/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTraceHasEveryStepOfALogin(t *testing.T) {
	for name, part := range map[string]func(redirect string) string{
		"URL":   func(redirect string) string { return redirect },
		"query": func(redirect string) string { _, query, _ := strings.Cut(redirect, "?"); return query },
	} {
		t.Run("the interaction returns the "+name, func(t *testing.T) { traceLogin(t, part) })
	}
}

// traceLogin logs in and out. part returns the part of the redirect that the interaction returns.
func traceLogin(t *testing.T, part func(redirect string) string) {
	w := oauthtest.New(t)
	c := w.Client()
	c.Interaction.(*logintest.Interaction).Open = func(ctx context.Context, url string) (string, error) {
		redirect, err := oauthtest.OpenPage(ctx, url)
		return part(redirect), err
	}
	steps := oauthtest.Record(c)
	must.Do(t, c.Login(t.Context(), w.URL()))
	must.Do(t, c.Logout(t.Context(), w.URL()))
	want := [][]string{
		{"challenge: POST " + w.URL(), `"method":"ping"`, "-> 401", "resource_metadata="},
		{"resource metadata: GET " + w.MCP.URL + w.ResourcePath, "-> 200", `"authorization_servers"`},
		{"authorization server metadata: GET " + w.AS.URL + w.IssuerPath, "-> 200", `"token_endpoint"`},
		{"registration: POST " + w.AS.URL + "/register", `"client_name"`, "-> 201", `"client_id":"client"`},
		{"authorization: GET " + w.AS.URL + "/authorize?", "code_challenge=", "state=redacted", "/callback?",
			"code=redacted"},
		{"token: POST " + w.AS.URL + "/token", "grant_type=authorization_code", "code=redacted", "-> 200",
			`"token_type":"Bearer"`, `"access_token":"redacted"`},
		{"authorization server metadata: "},
		{"revocation: POST " + w.AS.URL, "token=redacted"},
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
	if i := slices.IndexFunc(*steps, func(s string) bool { return strings.Contains(s, oauthtest.Secret) }); i >= 0 {
		t.Errorf("step %d contains a secret: %s", i, (*steps)[i])
	}
}

func TestTraceHasTheErrorOfAStep(t *testing.T) {
	w := oauthtest.New(t)
	w.AS.Close()
	c := w.Client()
	steps := oauthtest.Record(c)
	err := c.Login(t.Context(), w.URL())
	must.That(t, err != nil, "no error")
	last := (*steps)[len(*steps)-1]
	must.CheckThat(t, strings.HasPrefix(last, "authorization server metadata: ") && strings.Contains(last, "-> 0") &&
		!strings.HasSuffix(last, "<nil>"), "%v", last)
}
