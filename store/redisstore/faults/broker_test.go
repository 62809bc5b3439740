//go:build integration && unix

package faults

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/devissuer"
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/auth/oauth/callers"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/faulttest"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/internal/logintest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// brokered contains users of the replicas of a gateway. The users log in to a server with a separate issuer, where
// each user has the account NAME@up.
type brokered struct {
	t             *testing.T
	issuer, there *devissuer.Issuer
	up            string // URL of the server
	proxy         *proxy
}

const largeResult = 5000 // bytes

func newBrokered(t *testing.T, names ...string) *brokered {
	b := &brokered{t: t, issuer: startIssuer(t, names), proxy: newProxy(t)}
	var accounts []string
	for _, name := range names {
		accounts = append(accounts, name+"@up")
	}
	b.there = startIssuer(t, accounts)
	up := &server.Server{Name: "up", Version: "1"}
	server.AddTool(up, mcp.Tool{Name: "whoami"}, func(ctx context.Context, _ struct{}) (string, error) {
		return auth.FromContext(ctx).Principal.Subject(), nil
	})
	server.AddTool(up, mcp.Tool{Name: "large"}, func(ctx context.Context, _ struct{}) (string, error) {
		return auth.FromContext(ctx).Principal.Subject() + strings.Repeat(" ", largeResult), nil
	})
	endpoint := httptest.NewUnstartedServer(up)
	b.up = "http://" + endpoint.Listener.Addr().String() + "/mcp"
	up.Auth = jwt.Protect(&auth.ProtectedResource{URI: b.up, Issuers: []string{b.there.URL()}})
	endpoint.Start()
	t.Cleanup(endpoint.Close)
	return b
}

func startIssuer(t *testing.T, users []string) *devissuer.Issuer {
	issuer, err := devissuer.Start(devissuer.Config{Users: users})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { issuer.Close() })
	return issuer
}

// addReplica starts a replica with its own connection to Redis.
func (b *brokered) addReplica(i int, redis string) {
	db := openStore(b.t, redis)
	keys := [][]byte{make([]byte, 32)}
	s := &server.Server{Name: "gateway", Version: "1", Store: db, Keys: keys}
	s.Auth = jwt.Protect(&auth.ProtectedResource{URI: b.proxy.url + "/mcp", Issuers: []string{b.issuer.URL()}})
	broker := &callers.Broker{
		URL: b.proxy.url + "/login", Resource: s.Auth, Store: db, Keys: keys,
		New:    func() *oauth.Client { return &oauth.Client{Name: "gateway"} },
		Server: func(name string) string { return map[string]string{"up": b.up}[name] },
	}
	if err := broker.Check(); err != nil {
		b.t.Fatal(err)
	}
	// Without credentials of the operator, so that each caller sees its own lists.
	config := host.ServerConfig{Name: "up", Target: client.URL(b.up), MaxResult: 1000,
		CallerAuth: host.NewCallerAuth(broker.Authorizer("up"))}
	gatewaytest.Run(b.t, &host.Host{Servers: []host.ServerConfig{config}}, s)
	mux := http.NewServeMux()
	mux.Handle("/", s)
	mux.Handle("/login/", broker)
	endpoint := httptest.NewServer(mux)
	b.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), faulttest.Patience)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			b.t.Error(err)
		}
		endpoint.Close()
	})
	b.proxy.set(i, strings.TrimPrefix(endpoint.URL, "http://"))
}

func (b *brokered) dial(name string, r mcp.Revision) *client.Client {
	b.t.Helper()
	login := &oauth.Client{Interaction: &logintest.Interaction{RedirectURI: "http://127.0.0.1:3000/callback",
		Open: func(ctx context.Context, page string) (string, error) {
			return (&logintest.Browser{User: name}).Authorize(ctx, page)
		}}}
	c, err := (&client.Dialer{Revision: r, Auth: login}).Dial(b.t.Context(), client.URL(b.proxy.url+"/mcp"))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() })
	return c
}

var loginURL = regexp.MustCompile(`http://\S+/login/start/up`)

// Users log in at the pages of the replicas, call the server with their own login and read large results. Each request
// goes to another replica.
func TestUsersLogInAtReplicasOfAGateway(t *testing.T) {
	redis := startRedis(t)
	for _, r := range []mcp.Revision{mcp.V20250618, mcp.V20260728} {
		t.Run(string(r), func(t *testing.T) {
			b := newBrokered(t, "ada", "bob")
			for i := range replicas {
				b.addReplica(i, redis.addr)
			}
			results := make(map[string]string) // URIs by user
			for _, name := range []string{"ada", "bob"} {
				c := b.dial(name, r)
				browser := &logintest.Browser{User: name, Accounts: map[string]string{b.there.URL(): name + "@up"}}
				required, err := c.CallTool(t.Context(), "up__login", nil)
				if err != nil || !required.IsError {
					t.Fatalf("%s: %+v, %v", name, required, err)
				}
				start := loginURL.FindString(textOf(required))
				for _, method := range []string{http.MethodGet, http.MethodPost} {
					if _, err := browser.Open(t.Context(), method, start); err != nil {
						t.Fatal(err)
					}
				}
				for range 2 * replicas {
					if who, err := client.CallTool[string](t.Context(), c, "up__whoami", nil); err != nil ||
						who != name+"@up" {
						t.Errorf("%s: %q, %v", name, who, err)
					}
				}
				result, err := c.CallTool(t.Context(), "up__large", nil)
				if err != nil {
					t.Fatal(err)
				}
				_, uri, _ := strings.Cut(textOf(result), "The resource ")
				uri, _, _ = strings.Cut(uri, " ")
				results[name] = uri
				for range 2 * replicas {
					if read, err := c.ReadResource(t.Context(), uri); err != nil ||
						len(read.Contents[0].Text) != len(name+"@up")+largeResult {
						t.Errorf("%s reads %q: %v", name, uri, err)
					}
				}
				if name == "ada" {
					continue
				}
				if _, err := c.ReadResource(t.Context(), results["ada"]); !errors.Is(err, call.ErrResourceNotFound) {
					t.Errorf("%s reads the result of ada: %v", name, err)
				}
				if body, err := browser.Open(t.Context(), http.MethodPost, b.proxy.url+"/login/end/up"); err != nil ||
					!strings.Contains(body, "keeps no logins") {
					t.Errorf("after the end of the login of %s: %s, %v", name, body, err)
				}
			}
			if who, err := client.CallTool[string](t.Context(), b.dial("ada", r), "up__whoami", nil); err != nil ||
				who != "ada@up" {
				t.Errorf("after the end of another login: %q, %v", who, err)
			}
		})
	}
}

func textOf(result *mcp.CallToolResult) (text string) {
	for _, block := range result.Content {
		if c, ok := block.(*mcp.TextContent); ok {
			text += c.Text
		}
	}
	return text
}
