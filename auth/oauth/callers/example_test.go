package callers_test

import (
	"net/http"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/auth/oauth/callers"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

func Example() {
	s := &server.Server{Auth: &auth.ProtectedResource{}}
	kv, keys := store.NewMemory(), [][]byte{make([]byte, 32)}
	urls := map[string]string{"tracker": "https://tracker.example.com/mcp"}
	mux, config := http.NewServeMux(), new(host.ServerConfig)

	broker := &callers.Broker{
		URL:      "https://mcp.example.com/login",
		Resource: s.Auth, // the Auth of the server.Server in front
		Store:    kv,
		Keys:     keys,
		Server:   func(name string) string { return urls[name] },
		New:      func() *oauth.Client { return &oauth.Client{Name: "My gateway"} },
	}
	mux.Handle("/login/", broker)
	config.CallerAuth = host.NewCallerAuth(broker.Authorizer("tracker"))
}
