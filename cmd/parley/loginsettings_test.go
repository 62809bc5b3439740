package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/parley-mcp/parley/cmd/parley/internal/program/failure"
	"github.com/parley-mcp/parley/internal/logintest"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// deviating is an MCP server and its authorization server, which rejects the parameter resource and does not list S256.
// Its access tokens expire at once. It replaces refresh tokens, and ends a login whose refresh token is used twice.
type deviating struct {
	url   string
	bound bool // binds tokens to the key of the client (DPoP)

	mu       sync.Mutex
	requests []url.Values // to the authorization and the token endpoint
	issued   int          // tokens
}

func newDeviating(t *testing.T) *deviating {
	t.Helper()
	t.Setenv("PARLEY_CONFIG_DIR", filepath.Join(t.TempDir(), "config"))
	t.Setenv("PARLEY_NO_KEYRING", "1")
	d := new(deviating)
	s := &server.Server{Name: "deviating", Version: "1"}
	server.AddTool(s, mcp.Tool{Name: "hello"}, func(context.Context, struct{}) (string, error) { return "hi", nil })
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.serve(w, r, s) }))
	t.Cleanup(func() { web.Close(); must.Check(t, s.Shutdown(context.Background())) })
	d.url = web.URL
	return d
}

func (d *deviating) serve(w http.ResponseWriter, r *http.Request, s http.Handler) {
	respond := func(status int, body map[string]any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
	}
	rejection := map[string]any{"error": "invalid_request",
		"error_description": "AADSTS901002: The 'resource' request parameter is not supported."}
	scheme := "Bearer"
	if d.bound {
		scheme = "DPoP"
	}
	_ = r.ParseForm()
	if r.URL.Path == "/authorize" || r.URL.Path == "/token" {
		d.mu.Lock()
		d.requests = append(d.requests, r.Form)
		d.mu.Unlock()
	}
	switch r.URL.Path {
	case "/.well-known/oauth-protected-resource/mcp":
		respond(http.StatusOK, map[string]any{"resource": d.url + "/mcp", "authorization_servers": []string{d.url}})
	case "/.well-known/oauth-authorization-server":
		respond(http.StatusOK, map[string]any{"issuer": d.url, "authorization_endpoint": d.url + "/authorize",
			"token_endpoint": d.url + "/token", "registration_endpoint": d.url + "/register"})
	case "/register":
		respond(http.StatusCreated, map[string]any{"client_id": "c", "client_secret_expires_at": "0"})
	case "/authorize":
		q := url.Values{"code": {"c"}, "state": {r.Form.Get("state")}}
		if r.Form.Has("resource") {
			q = url.Values{"state": {r.Form.Get("state")}, "error": {"invalid_request"},
				"error_description": {rejection["error_description"].(string)}}
		}
		http.Redirect(w, r, r.Form.Get("redirect_uri")+"?"+q.Encode(), http.StatusSeeOther)
	case "/token":
		if r.Form.Has("resource") {
			respond(http.StatusBadRequest, rejection)
			return
		}
		if d.bound && r.Header.Get("DPoP") == "" {
			respond(http.StatusBadRequest, map[string]any{"error": "invalid_dpop_proof"})
			return
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if used := r.Form.Get("refresh_token"); used != "" && used != fmt.Sprint("r", d.issued) {
			d.issued = -1
			respond(http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
			return
		}
		d.issued++
		respond(http.StatusOK, map[string]any{"access_token": "t", "token_type": scheme, "expires_in": 0,
			"refresh_token": fmt.Sprint("r", d.issued)})
	case "/mcp":
		if r.Header.Get("Authorization") != scheme+" t" || d.bound && r.Header.Get("DPoP") == "" {
			w.Header().Set("WWW-Authenticate", scheme)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		s.ServeHTTP(w, r)
	default:
		http.NotFound(w, r)
	}
}

// The error of a login names the flag, which is stored with the login: for refreshes, for later logins, and for whoami.
func TestLoginSettingsAreNamedByErrorsAndStored(t *testing.T) {
	d := newDeviating(t)
	at := d.url + "/mcp"
	for _, tc := range []struct{ args, want string }{
		{"login " + at, "does not list the PKCE method S256"}, {"login " + at, "add --assume-pkce"},
		{"doctor " + at, "log in with --assume-pkce"},
		{"login --assume-pkce " + at, "AADSTS901002"}, {"login --assume-pkce " + at, "add --no-resource"},
	} {
		out, err := run(t, strings.Fields(tc.args)...)
		must.CheckThat(t, err != nil && strings.Contains(out+failure.Explain(err), tc.want),
			"%s: %v\n%s", tc.args, err, out)
	}
	out, err := run(t, "login", "--assume-pkce", "--no-resource", "--explain", at)
	must.Do(t, err)
	for _, want := range []string{"--assume-pkce logs in all the same", "The request has no parameter resource",
		"settings --no-resource --assume-pkce"} {
		must.CheckContains(t, out, want)
	}
	for _, args := range []string{"call " + at + " hello", "login --scope more " + at, "call " + at + " hello"} {
		d.mu.Lock()
		d.requests = nil
		d.mu.Unlock()
		out, err := run(t, strings.Fields(args)...)
		if err != nil || len(d.requests) == 0 {
			t.Errorf("%s: %v, %d requests\n%s", args, err, len(d.requests), out)
		}
		for _, r := range d.requests {
			must.CheckThat(t, !r.Has("resource"), "%s: request %v", args, r)
		}
	}
	out, err = run(t, "whoami", "-o", "json", at)
	if must.Do(t, err); !strings.Contains(out, `"noResource": true`) || !strings.Contains(out, `"assumePkce": true`) {
		t.Error(out)
	}
	_, err = run(t, "logout", at)
	must.Do(t, err)
	if out, err := run(t, "login", at); err == nil {
		t.Errorf("after the logout: %s", out)
	}
}

// Tokens can be bound to a key, which is stored with the login and used for each request and refresh.
func TestLoginsCanBeBoundToAKey(t *testing.T) {
	d := newDeviating(t)
	d.bound = true
	at := d.url + "/mcp"
	for _, tc := range []struct{ args, want string }{
		{"login --assume-pkce --no-resource " + at, "Logged in"},
		{"whoami -o json " + at, `"bound": true`},
		{"call " + at + " hello", "hi\n"},
		{"call --revision 2024-11-05 " + at + " hello", "hi\n"},
	} {
		must.CheckContains(t, must.Get(run(t, strings.Fields(tc.args)...))(t), tc.want, tc.args)
	}
}

// One of several commands that find an expired token at the same time refreshes it for all.
func TestConcurrentCommandsRefreshALoginOnce(t *testing.T) {
	d := newDeviating(t)
	at := d.url + "/mcp"
	must.Do(t, must.Err(run(t, "login", "--assume-pkce", "--no-resource", at)))
	var group sync.WaitGroup
	for range 6 {
		group.Go(func() { must.Check(t, must.Err(run(t, "call", at, "hello"))) })
	}
	group.Wait()
}

// The members of an entry count for logins to its server, and for the advice to log in.
func TestEntriesHaveTheSettingsOfTheirLogins(t *testing.T) {
	d := newDeviating(t)
	at := d.url + "/mcp"
	_, err := run(t, "add", "deviating", at, "--no-resource", "--assume-pkce")
	must.Do(t, err)
	file := must.Get(os.ReadFile(filepath.Join(os.Getenv("PARLEY_CONFIG_DIR"), "config.json")))(t)
	must.CheckContains(t, string(file), `"noResource": true`)
	must.CheckContains(t, string(file), `"assumePkce": true`)
	want := "run: parley login --no-resource --assume-pkce " + at
	if out, err := run(t, "call", "deviating", "hello"); err == nil || !strings.HasSuffix(failure.Explain(err), want) {
		t.Errorf("%v\n%s", err, out)
	}
	_, err = run(t, "login", at) // with the settings of the entry
	must.Do(t, err)
	out, err := run(t, "call", "deviating", "hello")
	must.CheckThat(t, err == nil && strings.HasSuffix(out, "hi\n"), "%v\n%s", err, out)
	for _, args := range []string{"add other --no-resource -- echo", "add other --assume-pkce -- echo"} {
		must.CheckFails(t, must.Err(run(t, strings.Fields(args)...)), "requires a URL", args)
	}
	config := filepath.Join(t.TempDir(), "mcp.json")
	must.Do(t, os.WriteFile(config, fmt.Appendf(nil, `{"mcpServers":{"a":{"command":"x","noResource":true}}}`), 0o600))
	if out, err := run(t, "call", "-c", config, "a", "hello"); err == nil ||
		!strings.Contains(failure.Explain(err), "require a url") {
		t.Errorf("%v\n%s", err, out)
	}
}

// Callers of parley up log in with the settings of the entry. Without them, the operator learns which are needed.
func TestCallersLogInWithTheSettingsOfTheEntry(t *testing.T) {
	d := newDeviating(t)
	config := filepath.Join(t.TempDir(), "mcp.json")
	must.Do(t, os.WriteFile(config, fmt.Appendf(nil, `{"mcpServers": {
		"with": {"url": %q, "credentials": {"type": "callerLogin"}, "noResource": true, "assumePkce": true},
		"half": {"url": %[1]q, "credentials": {"type": "callerLogin"}, "assumePkce": true}}}`, d.url+"/mcp"), 0o600))
	up := startParley(t, `http://[0-9.:]+/mcp`, "up", "--config", config, "--addr", "127.0.0.1:0", "--auth", "dev")
	must.Do(t, must.Err(run(t, "login", up)))
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	visit := func(server string) (string, error) {
		return new(logintest.Browser).LogIn(ctx, strings.TrimSuffix(up, "/mcp")+"/login/start/"+server)
	}
	if text, err := visit("half"); err == nil {
		t.Errorf("without noResource: %s", text)
	}
	text, err := visit("with")
	must.Do(t, err)
	must.CheckContains(t, text, "Login complete")
	must.Check(t, must.Err(run(t, "call", up, "with__hello")))
}
