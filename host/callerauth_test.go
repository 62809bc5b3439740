package host_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/principal"
)

func noCredentials(principal.Principal) (client.Authorizer, error) {
	return nil, errors.New("no credentials")
}

func TestCallerAuthRequiresAURLThatIsNotShared(t *testing.T) {
	auth := host.NewCallerAuth(noCredentials)
	for want, config := range map[string]host.ServerConfig{
		"requires a Target with a URL": {Name: "up", Target: client.Command("program"), CallerAuth: auth},
		"not Shared":                   {Name: "up", Target: client.URL("https://mcp.example"), Sharing: host.Shared, CallerAuth: auth},
	} {
		h := &host.Host{Servers: []host.ServerConfig{config}}
		if err := h.Start(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestServersWithCallerAuthHaveNoSubscriptions(t *testing.T) {
	h := &host.Host{Servers: []host.ServerConfig{{Name: "up", Target: client.URL("http://127.0.0.1:1/mcp"), CallerAuth: host.NewCallerAuth(noCredentials)}}}
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if err := h.Subscribe(t.Context(), "up", "lib://one", func() {}); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}
