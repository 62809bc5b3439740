//go:build integration && unix

package faults

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/faulttest"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// keyed is a server that records the keys that arrive in each of its sessions.
type keyed struct {
	server.Server
	mu   sync.Mutex
	keys map[string]map[string]bool // by session
}

func (k *keyed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if session := r.Header.Get("Mcp-Session-Id"); session != "" {
		k.mu.Lock()
		if k.keys[session] == nil {
			k.keys[session] = make(map[string]bool)
		}
		k.keys[session][r.Header.Get("X-Acme-Key")] = true
		k.mu.Unlock()
	}
	k.Server.ServeHTTP(w, r)
}

// newKeyed returns a server whose tool asks its caller, and returns the answer and the key before and after the
// question.
func newKeyed(t *testing.T) (k *keyed, url string) {
	k = &keyed{keys: make(map[string]map[string]bool)}
	k.Name = "keyed"
	server.AddTool(k, mcp.Tool{Name: "ask"}, func(ctx context.Context, _ struct{}) (string, error) {
		before := server.HeaderOf(ctx).Get("X-Acme-Key")
		answer, err := server.Elicit[struct{ Name string }](ctx, "Who are you?")
		return before + " " + answer.Name + " " + server.HeaderOf(ctx).Get("X-Acme-Key"), err
	})
	k.Headers = func() []string { return []string{"X-Acme-Key"} }
	endpoint := httptest.NewServer(k)
	t.Cleanup(endpoint.Close)
	return k, endpoint.URL
}

// A server behind two replicas of a gateway receives a key for each user. A request reaches one replica, and the
// answer to its question the other. Neither sends the key of one user over the connection or in the call of another.
func TestKeysOfCallersStayApartWhenAnotherReplicaContinues(t *testing.T) {
	redis := startRedis(t)
	for _, theirs := range []mcp.Revision{mcp.V20250618, mcp.V20260728} {
		k, url := newKeyed(t)
		p := newProxy(t)
		for i := range 2 {
			s := &server.Server{Name: "gateway", Store: openStore(t, redis.addr), Keys: [][]byte{make([]byte, 32)},
				Auth: &auth.ProtectedResource{URI: resource, Issuers: []string{issuer},
					Verifier: auth.VerifierFunc(verify)}}
			gatewaytest.Run(t, &host.Host{Dialer: client.Dialer{Revision: theirs}, Servers: []host.ServerConfig{{
				Name: "keyed", Target: client.URL(url),
				CallerHeaders: map[string]string{"X-Acme": "X-Acme-Key: ${value}"}}}}, s)
			endpoint := httptest.NewServer(s)
			t.Cleanup(func() {
				ctx, cancel := context.WithTimeout(context.Background(), faulttest.Patience)
				defer cancel()
				if err := s.Shutdown(ctx); err != nil {
					t.Error(err)
				}
				endpoint.Close()
			})
			p.set(i, strings.TrimPrefix(endpoint.URL, "http://"))
		}
		for _, r := range []mcp.Revision{mcp.V20250618, mcp.V20251125, mcp.V20260728} {
			t.Run(string(r)+" to "+string(theirs), func(t *testing.T) {
				var calling sync.WaitGroup
				for _, name := range []string{"ada", "bob", "cem"} {
					calling.Go(func() { askKeyed(t, name, r, p.url) })
				}
				calling.Wait()
			})
		}
		k.mu.Lock()
		for session, keys := range k.keys {
			if len(keys) != 1 {
				t.Errorf("%s: the session %s receives the keys %v", theirs, session, keys)
			}
		}
		if len(k.keys) == 0 && !theirs.Modern() {
			t.Errorf("%s: the server has no session", theirs)
		}
		k.mu.Unlock()
	}
}

// askKeyed calls the tool several times as a user, who answers its questions.
func askKeyed(t *testing.T, name string, r mcp.Revision, url string) {
	key := "key-of-" + name
	d := client.Dialer{Revision: r, Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return mcp.AcceptElicit(map[string]string{"Name": name})
	}}
	ctx, cancel := context.WithTimeout(t.Context(), faulttest.Patience)
	defer cancel()
	c, err := d.Dial(ctx, &client.HTTPTarget{URL: url,
		Header: http.Header{"Authorization": {"Bearer user-" + name}, "X-Acme": {key}}})
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	for range 4 {
		got, err := client.CallTool[string](ctx, c, "keyed__ask", nil)
		if want := key + " " + name + " " + key; err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
}
