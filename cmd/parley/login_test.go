package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/devissuer"
	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/cmd/parley/demo"
)

// printed is what a command prints, which can be waited for.
type printed struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{} // capacity 1
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case p.more <- struct{}{}:
	default:
	}
	return p.text.Write(b)
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// run runs parley with arguments, and a person at a browser opens what it prints.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out := &printed{more: make(chan struct{}, 1)}
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(strings.NewReader(""))
	root.SetOut(out)
	root.SetErr(out)
	var person sync.WaitGroup
	person.Go(func() {
		start := regexp.MustCompile(`http://\S+/login/\S+`)
		for {
			select {
			case <-ctx.Done():
				return
			case <-out.more:
				if page := start.FindString(out.String()); page != "" {
					if _, err := new(devissuer.Browser).LogIn(ctx, page); err != nil && ctx.Err() == nil {
						t.Error(err)
						cancel()
					}
					return
				}
			}
		}
	})
	err := root.ExecuteContext(ctx)
	cancel()
	person.Wait()
	return out.String(), err
}

// guarded is the demo server, whose callers need tokens of an issuer.
func guarded(t *testing.T, config devissuer.Config) (url string) {
	t.Helper()
	t.Setenv("PARLEY_CONFIG_DIR", filepath.Join(t.TempDir(), "config"))
	t.Setenv("PARLEY_NO_KEYRING", "1")
	issuer, err := devissuer.Start(config)
	if err != nil {
		t.Fatal(err)
	}
	s := demo.NewGuarded("1")
	s.Auth = &auth.ProtectedResource{Issuers: []string{issuer.URL()}, Scopes: []string{demo.ScopeUse}}
	endpoint := httptest.NewServer(s)
	t.Cleanup(func() {
		if err := errors.Join(s.Shutdown(context.Background()), issuer.Close()); err != nil {
			t.Error(err)
		}
		endpoint.Close()
	})
	return endpoint.URL
}

// Tokens that last for a second are renewed by the command that uses them, as the client that
// the login was made for.
func TestCommandsRenewALoginAsTheClientThatTheUserHasRegistered(t *testing.T) {
	const secret = "s3cr3t-of-the-client"
	url := guarded(t, devissuer.Config{
		AccessTokenLifetime: time.Second,
		Clients:             []devissuer.Client{{ID: "mine", Secret: secret, RedirectURIs: []string{"http://127.0.0.1/callback"}}},
	})
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	out, err := run(t, "login", "--client-id", "mine", "--client-secret-file", file, "--port", port, url)
	if err != nil || strings.Contains(out, secret) {
		t.Fatalf("%v\n%s", err, out)
	}
	first := ""
	for range 2 {
		timer := time.NewTimer(1100 * time.Millisecond) // until the token is over
		<-timer.C
		out, err := run(t, "call", "-o", "json", url, "whoami")
		if err != nil || !strings.Contains(out, `"client": "mine"`) {
			t.Fatalf("%v\n%s", err, out)
		}
		now, err := run(t, "whoami", "-o", "json", url)
		if err != nil || now == first {
			t.Errorf("it was not renewed: %v\n%s", err, now)
		}
		first = now
	}
	// Again, with the client and the port that are remembered.
	if out, err = run(t, "login", url); err != nil || !strings.Contains(out, "http://127.0.0.1:"+port+"/login/") {
		t.Fatalf("%v\n%s", err, out)
	}
}

// The issuer ends a login whose refresh token comes twice: of several commands that find an
// expired token one renews it, and the others use what it gets.
func TestCommandsThatRunAtOnceRenewALoginOnce(t *testing.T) {
	url := guarded(t, devissuer.Config{AccessTokenLifetime: time.Second})
	if out, err := run(t, "login", url); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for range 2 {
		timer := time.NewTimer(1100 * time.Millisecond) // until the token is over
		<-timer.C
		var group sync.WaitGroup
		for range 6 {
			group.Go(func() {
				if out, err := run(t, "call", url, "greet", "name=Ada"); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
		group.Wait()
	}
}

// freePort returns a port that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func TestALoginErrorIsACommandThatAShellTakesAsItIsMeant(t *testing.T) {
	for _, test := range []struct {
		request oauth.AuthorizationRequest
		want    string
	}{
		{oauth.AuthorizationRequest{Server: "https://example.com/mcp", Scopes: []string{"a"}}, "run: parley login https://example.com/mcp"},
		{oauth.AuthorizationRequest{Server: "https://example.com/mcp", Scopes: []string{"a"}, Previous: []string{"a"}}, "is over: run: parley login https://example.com/mcp"},
		{oauth.AuthorizationRequest{Server: "https://example.com/mcp", Scopes: []string{"a", "b", "c:d"}, Previous: []string{"a"}}, "grants b c:d too: run: parley login --scope 'b c:d' https://example.com/mcp"},
		{oauth.AuthorizationRequest{Server: "https://example.com/mcp?a=1&b=$(id)", Scopes: []string{"a"}}, "run: parley login 'https://example.com/mcp?a=1&b=$(id)'"},
		{oauth.AuthorizationRequest{Server: "https://example.com/mcp", Scopes: []string{"';id;'"}, Previous: []string{}}, `--scope ''\'';id;'\''' https://example.com/mcp`},
		{oauth.AuthorizationRequest{Server: "https://example.com/mcp", Scopes: []string{"--port=1"}, Previous: []string{}}, `--scope '--port=1' https://example.com/mcp`},
	} {
		err := explained(&oauth.InteractionError{Request: test.request})
		if !strings.HasSuffix(err.Error(), test.want) || !errors.Is(err, oauth.ErrInteraction) {
			t.Errorf("%q, want %q at its end", err, test.want)
		}
	}
}
