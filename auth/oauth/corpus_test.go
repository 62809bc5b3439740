package oauth_test

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/internal/corpus"
)

// Rule O12.
func TestAddressesOfTheCorpusAreJudgedAsRecorded(t *testing.T) {
	for _, c := range corpus.Cases(t, "rules/addresses") {
		a, err := netip.ParseAddr(c.Text(t))
		got := "forbidden"
		if err == nil && oauth.IsPublic(a) {
			got = "public"
		}
		if got != c.Want() {
			t.Errorf("%s: %s is %s (%v)", c.Place, c.Name, got, err)
		}
	}
}

// Rule O11.
func TestURLsOfTheCorpusAreJudgedAsRecorded(t *testing.T) {
	for _, c := range corpus.Cases(t, "rules/urls") {
		for _, system := range []string{"linux", "darwin", "windows"} {
			_, args, err := oauth.BrowserCommand(system, c.Text(t))
			got := "opened"
			if err != nil {
				got = "rejected"
			}
			if got != c.Want() {
				t.Errorf("%s: %s: %s on %s: %q, %v", c.Place, c.Name, got, system, args, err)
			}
		}
	}
}

// Rule O6: the outcomes are for a server that does not promise the parameter iss, and for one that does.
func TestCallbacksOfTheCorpusAreJudgedAsRecorded(t *testing.T) {
	for _, c := range corpus.Cases(t, "rules/callbacks") {
		var got []string
		for _, promised := range []bool{false, true} {
			code, err := oauth.AcceptAuthorizationResponse(c.Text(t), "s", "https://as.example", promised)
			outcome := callbackOutcome(code, err)
			if outcome != "error" && err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: %s: the error contains the text of another party: %v", c.Place, c.Name, err)
			}
			got = append(got, outcome)
		}
		if got := strings.Join(got, ", "); got != c.Want() {
			t.Errorf("%s: %s: %s, want %s", c.Place, c.Name, got, c.Want())
		}
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
		if got := strings.Join(got, ", "); got != c.Want() {
			t.Errorf("%s: %s: %s, want %s", c.Place, c.Name, got, c.Want())
		}
	}
}

// Rule O5.
func TestServerMetadataOfTheCorpusIsJudgedAsRecorded(t *testing.T) {
	server := &url.URL{Scheme: "https", Host: "mcp.example", Path: "/a/mcp"}
	fragments := map[string]string{"issuer": `"issuer":"https://as.example"`, "token": `"token_endpoint":"https://as.example/token"`}
	for _, c := range corpus.Cases(t, "rules/servers") {
		_, err := oauth.ParseServer(c.Bytes(t, fragments), "https://as.example", server)
		if got := accepted(err); got != c.Want() {
			t.Errorf("%s: %s: %s, want %s (%v)", c.Place, c.Name, got, c.Want(), err)
		}
	}
}

func accepted(err error) string {
	if err != nil {
		return "rejected"
	}
	return "accepted"
}
