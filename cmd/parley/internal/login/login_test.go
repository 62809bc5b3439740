package login

import (
	"testing"

	"github.com/parley-mcp/parley/cmd/parley/internal/login/credstore"
	"github.com/parley-mcp/parley/internal/must"
)

func TestStoredRegistrationHasARedirectURI(t *testing.T) {
	t.Setenv("PARLEY_CONFIG_DIR", t.TempDir())
	t.Setenv("PARLEY_NO_KEYRING", "1")
	stored := must.Get(credstore.Open())(t)
	flags := &loginFlags{clientID: "b", port: 4000}
	now := must.Get(flags.registration("https://new.example/"))(t)
	must.Do(t, stored.SaveRegistration(t.Context(), now))
	for server, want := range map[string]string{
		"https://new.example/":   "http://127.0.0.1:4000/callback",
		"https://other.example/": "",
	} {
		must.CheckEqual(t, must.Get(stored.RedirectURI(t.Context(), server))(t), want, server)
	}
	flags.redirectURI = "http://localhost:1/x"
	_, err := flags.registration("https://new.example/")
	must.CheckThat(t, err != nil, "--port and --redirect-uri are accepted")
}
