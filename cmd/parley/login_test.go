package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/devissuer"
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/auth/oauth/trace"
	"github.com/parley-mcp/parley/cmd/parley/demo"
	"github.com/parley-mcp/parley/cmd/parley/internal/inspect"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/failure"
	"github.com/parley-mcp/parley/internal/freeaddr"
	"github.com/parley-mcp/parley/internal/logintest"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// outputBuffer collects the output of a command.
type outputBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{} // capacity 1; receives after a write
}

func (p *outputBuffer) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case p.more <- struct{}{}:
	default:
	}
	return p.text.Write(b)
}

func (p *outputBuffer) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// run runs parley with arguments. A simulated user opens the login page that it prints.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	out := &outputBuffer{more: make(chan struct{}, 1)}
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(strings.NewReader(""))
	root.SetOut(out)
	root.SetErr(out)
	var user sync.WaitGroup
	user.Go(func() {
		start := regexp.MustCompile(`http://\S+/login/\S+`)
		for {
			select {
			case <-ctx.Done():
				return
			case <-out.more:
				if page := start.FindString(out.String()); page != "" {
					if _, err := new(logintest.Browser).LogIn(ctx, page); err != nil && ctx.Err() == nil {
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
	user.Wait()
	return out.String(), err
}

// A server with API keys names no authorization server, so the advice is to send a key and not to log in.
func TestKeysOfAServerAreSentByHand(t *testing.T) {
	t.Setenv("PARLEY_CONFIG_DIR", t.TempDir())
	s := &server.Server{Name: "keys", Logger: slog.New(slog.DiscardHandler)}
	s.Auth = &auth.ProtectedResource{Verifier: auth.VerifierFunc(func(_ context.Context,
		key string) (*auth.Info, error) {
		ada, err := principal.New("keys", "ada", "")
		if key != "k" {
			err = errors.New("unknown key")
		}
		return &auth.Info{Principal: ada}, err
	})}
	server.AddTool(s, mcp.Tool{Name: "whoami"}, func(context.Context, struct{}) (string, error) { return "ada", nil })
	endpoint := httptest.NewServer(s)
	defer endpoint.Close()
	url := endpoint.URL + "/mcp"
	const send = "; send credentials that the server accepts, with --header or in the configuration"
	for _, tc := range []struct {
		args, want string
		code       int
	}{
		{"call " + url + " whoami --header Authorization:Bearer_k", "", 0},
		{"call " + url + " whoami", "cannot discover the authorization server: " + url +
			" names none, so requests need an API key or another token of the server" + send, failure.ExitUnauthorized},
		{"call " + url + " whoami --header X-Api-Key:k",
			"although the request has the header X-Api-Key: cannot discover the authorization server: " + url +
				" names none, so requests need an API key or another token of the server" + send,
			failure.ExitUnauthorized},
		{"login " + url, "names none, so requests need an API key or another token of the server", failure.ExitOther},
	} {
		args := strings.Fields(tc.args)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "_", " ")
		}
		out, err := run(t, args...)
		code := failure.Code(t.Context(), err)
		must.CheckThat(t, code == tc.code && (err == nil || strings.HasSuffix(failure.Explain(err), tc.want)),
			"%q: exit code %d, %v\n%s", args, code, err, out)
	}
	out, _ := run(t, "doctor", url)
	must.CheckThat(t, strings.Contains(out,
		"note     login         requires credentials, and names no authorization server") &&
		!strings.Contains(out, "parley login"), "doctor:\n%s", out)
}

// serveAuthorized serves the demo server, which requires tokens of a development issuer.
func serveAuthorized(t *testing.T, config devissuer.Config) (url string) {
	t.Helper()
	t.Setenv("PARLEY_CONFIG_DIR", filepath.Join(t.TempDir(), "config"))
	t.Setenv("PARLEY_NO_KEYRING", "1")
	issuer := must.Get(devissuer.Start(config))(t)
	s := demo.NewAuthorized("1")
	s.Auth = jwt.Protect(&auth.ProtectedResource{Issuers: []string{issuer.URL()}, Scopes: []string{demo.ScopeUse}})
	endpoint := httptest.NewServer(s)
	t.Cleanup(func() {
		must.Check(t, errors.Join(s.Shutdown(context.Background()), issuer.Close()))
		endpoint.Close()
	})
	return endpoint.URL
}

// The tokens expire after a second. A command that uses an expired token refreshes it, with the
// client of the login.
func TestCommandsRefreshALoginOfARegisteredClient(t *testing.T) {
	const secret = "s3cr3t-of-the-client"
	redirectURI := "http://localhost:" + freePort(t) + "/oauth/return"
	url := serveAuthorized(t, devissuer.Config{
		AccessTokenLifetime: time.Second,
		Clients:             []devissuer.Client{{ID: "mine", Secret: secret, RedirectURIs: []string{redirectURI}}},
	})
	file := filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(file, []byte(secret+"\n"), 0o600))
	out, err := run(t, "login", "--client-id", "mine", "--client-secret-file", file, "--redirect-uri", redirectURI, url)
	must.That(t, err == nil && !strings.Contains(out, secret), "%v\n%s", err, out)
	first := ""
	for range 2 {
		timer := time.NewTimer(1100 * time.Millisecond) // until the token has expired
		<-timer.C
		must.Contains(t, must.Get(run(t, "call", "-o", "json", url, "whoami"))(t), `"client": "mine"`)
		now, err := run(t, "whoami", "-o", "json", url)
		must.CheckThat(t, err == nil && now != first, "the token was not refreshed: %v\n%s", err, now)
		first = now
	}
	// Log in again with the stored client and redirect URI.
	out, err = run(t, "login", url)
	must.That(t, err == nil && strings.Contains(out, strings.TrimSuffix(redirectURI, "oauth/return")+"login/"),
		"%v\n%s", err, out)
}

// freePort returns a port that is not in use.
func freePort(t *testing.T) string {
	t.Helper()
	addr := must.Get(freeaddr.New())(t)
	_, port, err := net.SplitHostPort(addr)
	must.Do(t, err)
	return port
}

// logInForPage logs in as the page of parley inspect does. A simulated user opens the login page, whose address it
// returns.
func logInForPage(t *testing.T, url string, o inspect.LoginOptions) (page string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	var user sync.WaitGroup
	o.Step = func(trace.Step) {}
	o.Open = func(_ context.Context, opened string) error {
		page = opened
		user.Go(func() { must.Check(t, must.Err(new(logintest.Browser).LogIn(ctx, opened))) })
		return nil
	}
	cmd := new(cobra.Command)
	cmd.SetErr(io.Discard)
	err = inspect.LogIn(ctx, cmd, url, o)
	user.Wait()
	return page, err
}

func TestInspectLogsInWithAClientOfTheUserAndStoresIt(t *testing.T) {
	const secret = "s3cr3t-of-the-client"
	host := "http://localhost:" + freePort(t)
	url := serveAuthorized(t, devissuer.Config{
		Clients: []devissuer.Client{{ID: "mine", Secret: secret, RedirectURIs: []string{host + "/oauth/return"}}},
	})
	start := host + "/login/"
	elsewhere := inspect.LoginOptions{ClientID: "mine", ClientSecret: secret,
		RedirectURI: "https://example.com/oauth/return"}
	must.CheckFails(t, must.Err(logInForPage(t, url, elsewhere)), "it must be like http://localhost:3118/callback",
		"a redirect to another host")
	page, err := logInForPage(t, url, inspect.LoginOptions{ClientID: "mine", ClientSecret: secret,
		RedirectURI: host + "/oauth/return"})
	must.That(t, err == nil && strings.HasPrefix(page, start), "page %s, %v", page, err)
	must.CheckContains(t, must.Get(run(t, "call", "-o", "json", url, "whoami"))(t), `"client": "mine"`)
	// The next login uses the stored client and redirect URI.
	page, err = logInForPage(t, url, inspect.LoginOptions{})
	must.CheckThat(t, err == nil && strings.HasPrefix(page, start), "the next login: page %s, %v", page, err)
	must.CheckContains(t, must.Get(run(t, "call", "-o", "json", url, "whoami"))(t), `"client": "mine"`,
		"after the next login")
}

func TestInspectAsksForAClientIfTheIssuerRegistersNone(t *testing.T) {
	t.Setenv("PARLEY_CONFIG_DIR", t.TempDir())
	t.Setenv("PARLEY_NO_KEYRING", "1")
	mux := http.NewServeMux()
	s := httptest.NewServer(mux)
	defer s.Close()
	respond := func(format string, args ...any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, format, args...)
		}
	}
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+s.URL+`/resource"`)
		w.WriteHeader(http.StatusUnauthorized)
	})
	mux.HandleFunc("/resource", respond(`{"resource": "%s/mcp", "authorization_servers": [%q]}`, s.URL, s.URL))
	mux.HandleFunc("/.well-known/oauth-authorization-server", respond(
		`{"issuer": %q, "authorization_endpoint": "%s/authorize", "token_endpoint": "%s/token", `+
			`"response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"]}`, s.URL, s.URL, s.URL))
	_, err := logInForPage(t, s.URL+"/mcp", inspect.LoginOptions{})
	must.CheckThat(t, err != nil && strings.Contains(err.Error(), "does not support dynamic registration") &&
		strings.HasSuffix(err.Error(), `; open "Client and redirect URI" and enter a client that you have registered`),
		"got %v", err)
}

// The program prints what a server sends, and a warning that names what it has left out.
func TestFaultsInContentAreWarnings(t *testing.T) {
	answers := map[string]string{
		"initialize": `{"protocolVersion":"2025-06-18","capabilities":{"tools":[]},"serverInfo":{"name":"s",` +
			`"version":1}}`,
		"tools/list": `{"tools":[{"name":"find","inputSchema":{"type":"object"},` +
			`"annotations":{"readOnlyHint":"yes"}},{"name":7}]}`,
		"tools/call": `{"content":["first \ud83d",7]}`,
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m, err := jsonrpc.Parse(body, jsonrpc.Limits{})
		switch result, ok := answers[m.Method]; {
		case err != nil || m.Kind != jsonrpc.Request:
			w.WriteHeader(http.StatusAccepted)
		case ok:
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(jsonrpc.AppendResult(nil, m.ID, []byte(result)))
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(jsonrpc.AppendError(nil, m.ID, jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "no"), false))
		}
	}))
	t.Cleanup(s.Close)
	t.Setenv("PARLEY_CONFIG_DIR", t.TempDir())
	printed, err := run(t, "call", s.URL, "find")
	must.CheckThat(t, err == nil && strings.HasSuffix(printed, "\nfirst \ufffd\n"), "%q, %v", printed, err)
	for _, part := range []string{"part=serverInfo.version", "part=tools[0](find).annotations.readOnlyHint",
		"part=tools[1]", "part=content[1]"} {
		must.CheckContains(t, printed, part+",", "the warnings do not name", part)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A user opens the page of logins of parley up, which shows those to all servers, and ends them there.
func TestUsersSeeAndEndTheirLogins(t *testing.T) {
	first, second := serveAuthorized(t, devissuer.Config{}), serveAuthorized(t, devissuer.Config{})
	config := filepath.Join(t.TempDir(), "mcp.json")
	must.Do(t, os.WriteFile(config, fmt.Appendf(nil, `{"mcpServers": {
		"one": {"url": %q, "credentials": {"type": "callerLogin"}},
		"two": {"url": %q, "credentials": {"type": "callerLogin"}}}}`, first, second), 0o600))
	up := startParley(t, `http://[0-9.:]+/mcp`, "up", "--config", config, "--addr", "127.0.0.1:0", "--auth", "dev")
	base := strings.TrimSuffix(up, "/mcp")
	must.Do(t, must.Err(run(t, "login", up)))
	call := func(server string) (string, error) { return run(t, "call", up, server+"__greet", "name=Ada") }
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	var cookies string // of the browser
	user := &logintest.Browser{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		cookies = r.Header.Get("Cookie")
		return http.DefaultTransport.RoundTrip(r)
	})}
	visit := func(path, want string) {
		t.Helper()
		text, err := user.LogIn(ctx, base+path)
		must.Do(t, err, path)
		must.CheckContains(t, text, want, path)
	}
	visit("/login/", "This program keeps no logins for you")
	for _, server := range []string{"one", "two"} {
		_, err := call(server)
		must.CheckThat(t, err != nil, "%s can be called without a login", server)
		visit("/login/start/"+server, "Login complete")
		must.Check(t, must.Err(call(server)))
	}
	visit("/login", "one at "+first+" Log out two at "+second+" Log out")
	for i, server := range []string{"one", "two"} {
		request := must.Get(http.NewRequestWithContext(ctx, http.MethodPost, base+"/login/end/"+server, nil))(t)
		request.Header.Set("Cookie", cookies)
		request.Header.Set("Sec-Fetch-Site", "same-origin")
		response := must.Get(http.DefaultTransport.RoundTrip(request))(t)
		must.Check(t, response.Body.Close())
		must.CheckEqual(t, response.Header.Get("Location"), base+"/login/", "the page after the end of a login")
		visit("/login/", []string{"calls only. two at " + second + " Log out", "keeps no logins"}[i])
		if out, err := call(server); err == nil || !strings.Contains(out, base+"/login/start/"+server) {
			t.Errorf("%s after the login was ended: %v, %s", server, err, out)
		}
	}
}
