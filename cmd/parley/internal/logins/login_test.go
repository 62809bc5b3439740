package logins

import (
	"testing"

	"github.com/parley-mcp/parley/cmd/parley/internal/credstore"
)

func TestStoredRegistrationHasARedirectURI(t *testing.T) {
	t.Setenv("PARLEY_CONFIG_DIR", t.TempDir())
	t.Setenv("PARLEY_NO_KEYRING", "1")
	stored, err := credstore.Open()
	if err != nil {
		t.Fatal(err)
	}
	flags := &loginFlags{clientID: "b", port: 4000}
	now, err := flags.registration("https://new.example/")
	if err != nil {
		t.Fatal(err)
	}
	if err := stored.SaveRegistration(t.Context(), *now); err != nil {
		t.Fatal(err)
	}
	for server, want := range map[string]string{
		"https://new.example/":   "http://127.0.0.1:4000/callback",
		"https://other.example/": "",
	} {
		if got, err := stored.RedirectURI(t.Context(), server); err != nil || got != want {
			t.Errorf("%s: %q, %v", server, got, err)
		}
	}
	flags.redirectURI = "http://localhost:1/x"
	if _, err := flags.registration("https://new.example/"); err == nil {
		t.Error("--port and --redirect-uri are accepted")
	}
}
