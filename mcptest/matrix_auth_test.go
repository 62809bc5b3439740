package mcptest_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/devissuer"
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/logintest"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// The server knows only the address of the issuer. The call sends progress and requests
// input with the token of the client.
func TestTokenAuthorizesAllRequestsOfCall(t *testing.T) {
	issuer := must.Get(devissuer.Start(devissuer.Config{}))(t)
	defer issuer.Close()
	for _, r := range mcp.Revisions() {
		t.Run(string(r), func(t *testing.T) {
			s := &server.Server{
				Logger: slog.New(slog.DiscardHandler),
				Auth:   jwt.Protect(&auth.ProtectedResource{Issuers: []string{issuer.URL()}, Scopes: []string{"mcp"}}),
			}
			server.AddTool(s, mcp.Tool{Name: "whoami"}, func(ctx context.Context, _ struct{}) (string, error) {
				if err := server.Progress(ctx, 1, 2, "looking"); err != nil {
					return "", err
				}
				if _, err := server.Roots(ctx); err != nil {
					return "", err
				}
				return server.PrincipalOf(ctx).String(), nil
			})
			endpoint := httptest.NewServer(s)
			defer endpoint.Close()
			defer func() {
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				defer cancel()
				_ = s.Shutdown(ctx)
			}()
			dial := func(audience string, scopes ...string) (*client.Client, error) {
				token := must.Get(issuer.Token("ada", audience, scopes...))(t)
				d := client.Dialer{Roots: func(context.Context) ([]mcp.Root, error) { return []mcp.Root{}, nil }}
				mcptest.WithRevision(r)(&d)
				return d.Dial(t.Context(), &client.HTTPTarget{URL: endpoint.URL + "/mcp",
					Header: http.Header{"Authorization": {"Bearer " + token}}})
			}
			c := must.Get(dial(endpoint.URL+"/mcp", "mcp"))(t)
			defer c.Close()
			who, err := c.CallTool(t.Context(), "whoami", nil, client.WithProgress(func(float64, float64, string) {}))
			must.CheckThat(t, err == nil && !who.IsError &&
				who.Content[0].(*mcp.TextContent).Text == "ada at "+issuer.URL()+" through devissuer",
				"%+v, %v", who, err)
			for name, dial := range map[string]func() (*client.Client, error){
				"for another server": func() (*client.Client, error) { return dial(endpoint.URL+"/other", "mcp") },
				"without the scope":  func() (*client.Client, error) { return dial(endpoint.URL+"/mcp", "other") },
			} {
				if c, err := dial(); err == nil {
					c.Close()
					t.Errorf("the server accepts a token %s", name)
				}
			}
		})
	}
}

// A server whose callers have API keys has no authorization server, and a client does not look for one elsewhere.
func TestAPIKeysNeedNoAuthorizationServer(t *testing.T) {
	for _, r := range mcp.Revisions() {
		t.Run(string(r), func(t *testing.T) {
			s := guarded()
			s.Logger = slog.New(slog.DiscardHandler)
			s.Auth = &auth.ProtectedResource{Verifier: auth.VerifierFunc(func(_ context.Context,
				key string) (*auth.Info, error) {
				if key != "key-of-ada" {
					return nil, &auth.InvalidTokenError{Reason: "unknown API key"}
				}
				ada, err := principal.New("keys", "ada", "")
				return &auth.Info{Principal: ada}, err
			})}
			defer func() { _ = s.Shutdown(context.Background()) }()
			for _, tc := range []struct {
				key   string
				login client.Authorizer
				want  string   // in the error
				asked []string // the requests that were not served, and their challenges
			}{
				{"key-of-ada", nil, "", nil},
				{"", nil, "send credentials that the server accepts, in HTTPTarget.Header or with Dialer.Auth",
					[]string{`/mcp Bearer realm="mcp"`}},
				{"key-of-eve", nil, "rejects the header Authorization of the request", []string{
					`/mcp Bearer error="invalid_token", error_description="unknown API key", realm="mcp"`,
				}},
				{"", &oauth.Client{}, "cannot discover the authorization server: ", []string{
					`/mcp Bearer realm="mcp"`, "/.well-known/oauth-protected-resource/mcp ",
					"/.well-known/oauth-protected-resource ",
					`/.well-known/oauth-authorization-server Bearer realm="mcp"`,
				}},
			} {
				var mu sync.Mutex
				var asked []string
				endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					s.ServeHTTP(w, r)
					mu.Lock()
					defer mu.Unlock()
					if c := w.Header().Get("Www-Authenticate"); c != "" ||
						strings.HasPrefix(r.URL.Path, "/.well-known/") {
						asked = append(asked, r.URL.Path+" "+c)
					}
				}))
				d := client.Dialer{Auth: tc.login}
				mcptest.WithRevision(r)(&d)
				target := &client.HTTPTarget{URL: endpoint.URL + "/mcp"}
				if tc.key != "" {
					target.Header = http.Header{"Authorization": {"Bearer " + tc.key}}
				}
				c, err := d.Dial(t.Context(), target)
				if err == nil {
					wantWho(t, c, "look", "ada")
					c.Close()
				}
				endpoint.Close() // waits for the requests
				must.CheckThat(t, (err == nil) == (tc.want == "") &&
					(err == nil || strings.Contains(err.Error(), tc.want)) && slices.Equal(asked, tc.asked),
					"with %q: %v, after the requests\n%q", tc.key, err, asked)
			}
		})
	}
}

// guarded returns a server with one tool for all authorized callers and two that need more scopes.
func guarded() *server.Server {
	s := &server.Server{Name: "guarded", Version: "1"}
	whoami := func(ctx context.Context, _ struct{}) (string, error) { return server.PrincipalOf(ctx).Subject(), nil }
	server.AddTool(s, mcp.Tool{Name: "look"}, whoami)
	server.AddTool(s, mcp.Tool{Name: "change"}, whoami, server.RequireScopes("files:write"))
	server.AddTool(s, mcp.Tool{Name: "erase"}, whoami, server.RequireScopes("files:erase"))
	return s
}

func wantWho(t *testing.T, c *client.Client, tool, want string) {
	t.Helper()
	must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, tool, nil))(t), want, tool)
}

// Rules R5, R8, O13: a call that needs more scopes starts another login and succeeds in the
// same session. If the user denies the login, only that call fails.
func TestStepUpKeepsSession(t *testing.T) {
	guardedEverywhere(t, guarded, func(t *testing.T, r mcp.Revision, w *realm) {
		ada := &person{realm: w, browser: logintest.Browser{User: "ada"}}
		c := w.mustDial(t, r, ada.program())
		wantWho(t, c, "look", "ada")
		must.CheckEqual(t, ada.asked.Load(), 1, "logins before a call needs more scopes, want 1")
		wantWho(t, c, "change", "ada")
		wantWho(t, c, "look", "ada")
		wantWho(t, c, "change", "ada")
		must.CheckEqual(t, ada.asked.Load(), 2, "logins after one step-up, want 2")
		ada.browser.Deny = true
		_, err := client.CallTool[string](t.Context(), c, "erase", nil)
		var rejection *oauth.ServerError
		must.CheckThat(t, errors.Is(err, call.ErrUnauthorized) && errors.As(err, &rejection) &&
			rejection.Code == "access_denied", "the call after a denied login: %v", err)
		wantWho(t, c, "change", "ada")
		if n, modern := w.sessionCount(), r.Modern(); !modern && n != 1 || modern && n != 0 {
			t.Errorf("%d sessions", n)
		}
	})
}

// The middleware sees a call whose scopes are missing, also where the transport answers with a challenge before
// it accepts the message.
func TestMiddlewareSeesCallsWithMissingScopes(t *testing.T) {
	var mu sync.Mutex
	var outcomes []string
	observed := func() *server.Server {
		s := guarded()
		s.Middleware = []call.Middleware{func(next call.Handler) call.Handler {
			return func(ctx context.Context, c *call.Call) (any, error) {
				result, err := next(ctx, c)
				outcome := "ok"
				if errors.As(err, new(*auth.ScopeError)) {
					outcome = "scope missing"
				} else if err != nil {
					outcome = err.Error()
				}
				mu.Lock()
				defer mu.Unlock()
				outcomes = append(outcomes, c.Method()+" "+outcome)
				return result, err
			}
		}}
		return s
	}
	guardedEverywhere(t, observed, func(t *testing.T, r mcp.Revision, w *realm) {
		mu.Lock()
		outcomes = nil
		mu.Unlock()
		ada := &person{realm: w, browser: logintest.Browser{User: "ada"}}
		c := w.mustDial(t, r, ada.program())
		wantWho(t, c, "change", "ada")
		mu.Lock()
		defer mu.Unlock()
		want := []string{"tools/call scope missing", "tools/call ok"}
		got := outcomes[max(len(outcomes)-2, 0):]
		must.CheckThat(t, slices.Equal(got, want), "the middleware saw %q, want %q at the end", outcomes, want)
	})
}

// A tool that middleware names needs its own scopes, also where the transport has authorized the tool of the client.
func TestScopesAreThoseOfTheToolThatMiddlewareNames(t *testing.T) {
	renaming := func() *server.Server {
		s := guarded()
		s.Middleware = []call.Middleware{before(func(c *call.Call) error {
			if c.Name() != "look" {
				return nil
			}
			return c.SetParams(map[string]string{"name": "erase"})
		})}
		return s
	}
	guardedEverywhere(t, renaming, func(t *testing.T, r mcp.Revision, w *realm) {
		ada := &person{realm: w, browser: logintest.Browser{User: "ada"}}
		c := w.mustDial(t, r, ada.program())
		wantWho(t, c, "change", "ada")
		ada.browser.Deny = true
		text, err := client.CallTool[string](t.Context(), c, "look", nil)
		must.CheckThat(t, err != nil, "erase without its scope returned %q", text)
	})
}

// Rule O13: a token that expires during a session is refreshed without a login.
func TestExpiredTokenIsRefreshedDuringSession(t *testing.T) {
	guardedEverywhere(t, guarded, func(t *testing.T, r mcp.Revision, w *realm) {
		ada := &person{realm: w, browser: logintest.Browser{User: "ada"}}
		must.Do(t, ada.program().Login(t.Context(), w.url, "mcp"))
		c := w.mustDial(t, r, ada.program()) // another client with the same store
		wantWho(t, c, "look", "ada")
		w.expire()
		wantWho(t, c, "look", "ada")
		if n, asked := w.tokenCount(), ada.asked.Load(); n != 2 || asked != 1 {
			t.Errorf("%d tokens and %d logins, want 2 and 1", n, asked)
		}
		if n, modern := w.sessionCount(), r.Modern(); !modern && n != 1 || modern && n != 0 {
			t.Errorf("%d sessions", n)
		}
	})
}

// A revoked grant leads to another login, or to an InteractionError in a client without a user.
func TestRevokedGrantLeadsToLoginOrError(t *testing.T) {
	guardedEverywhere(t, guarded, func(t *testing.T, r mcp.Revision, w *realm) {
		ada := &person{realm: w, browser: logintest.Browser{User: "ada"}}
		must.Do(t, ada.program().Login(t.Context(), w.url, "mcp"))
		noUser := ada.program()
		noUser.Interaction = nil
		c, unattended := w.mustDial(t, r, ada.program()), w.mustDial(t, r, noUser)
		wantWho(t, c, "look", "ada")
		wantWho(t, unattended, "look", "ada")
		w.proxy.RevokeGrants()
		w.expire()

		_, err := client.CallTool[string](t.Context(), unattended, "look", nil)
		var wanted *oauth.InteractionError
		must.CheckThat(t, errors.Is(err, call.ErrUnauthorized) && errors.As(err, &wanted) &&
			wanted.Request.Server == w.url, "the call of a client without a user: %v", err)
		wantWho(t, c, "look", "ada")
		must.CheckEqual(t, ada.asked.Load(), 2, "logins, want 2")
	})
}

// holder makes requests with a token and a key, which may not be the key that the token is bound to.
type holder struct {
	t     *testing.T
	w     *realm
	token string
	key   *jose.JSONWebKey
	clock *atomic.Int64 // the time that the server's clock is ahead
	nonce string        // the last nonce from the server
}

// holderOf returns a holder with the token and key from a person's store.
func holderOf(t *testing.T, w *realm, p *person, clock *atomic.Int64) *holder {
	t.Helper()
	keys := must.Get(p.store.Keys(t.Context()))(t)
	for _, key := range keys {
		raw, err := p.store.Load(t.Context(), key)
		if err != nil || !strings.HasPrefix(key, "token ") {
			continue
		}
		var stored struct {
			Access string          `json:"access_token"`
			Key    jose.JSONWebKey `json:"proof_key"`
		}
		if err := json.Unmarshal(raw, &stored); err != nil || stored.Key.Key == nil {
			t.Fatalf("the token is not bound to a key: %v", err)
		}
		return &holder{t: t, w: w, token: stored.Access, key: &stored.Key, clock: clock}
	}
	t.Fatal("the store has no token")
	return nil
}

// proof returns a proof for a POST to the server, with some claims changed.
func (h *holder) proof(changes map[string]any) string {
	h.t.Helper()
	sum := sha256.Sum256([]byte(h.token))
	claims := map[string]any{
		"jti": rand.Text(), "htm": http.MethodPost, "htu": h.w.url, "nonce": h.nonce,
		"iat": time.Now().Add(time.Duration(h.clock.Load())).Unix(),
		"ath": base64.RawURLEncoding.EncodeToString(sum[:]),
	}
	for name, value := range changes {
		claims[name] = value
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: h.key.Key},
		(&jose.SignerOptions{EmbedJWK: true}).WithType("dpop+jwt"))
	must.Do(h.t, err)
	payload := must.Get(json.Marshal(claims))(h.t)
	signed := must.Get(signer.Sign(payload))(h.t)
	proof := must.Get(signed.CompactSerialize())(h.t)
	return proof
}

// post sends a request to the server. It returns the error code of the challenge, or "" if the request is authorized.
func (h *holder) post(authorization, proof string) string {
	h.t.Helper()
	header := []string{"Authorization", authorization}
	if proof != "" {
		header = append(header, "DPoP", proof)
	}
	res := wiretest.Do(h.t, http.MethodPost, h.w.url, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, header...)
	wiretest.Text(h.t, res)
	if nonce := res.Header.Get("DPoP-Nonce"); nonce != "" {
		h.nonce = nonce
	}
	if res.StatusCode != http.StatusUnauthorized {
		return ""
	}
	for _, challenge := range res.Header.Values("WWW-Authenticate") {
		if _, code, ok := strings.Cut(challenge, `error="`); ok && strings.HasPrefix(challenge, "DPoP ") {
			code, _, _ = strings.Cut(code, `"`)
			return code
		}
	}
	return fmt.Sprintf("no usable challenge: %v", res.Header)
}

// Rule R8: tokens are bound to a key. A stolen token or proof cannot be used.
func TestDPoPTokensInEveryRevision(t *testing.T) {
	var clock atomic.Int64
	bound := func(c *realmConfig) {
		clock.Store(0)
		c.issuer.AccessTokenLifetime = time.Hour
		c.resource.Now = func() time.Time { return time.Now().Add(time.Duration(clock.Load())) }
		c.resource.DPoP, c.resource.RequireDPoP = &jwt.ProofVerifier{Nonces: true, Now: c.resource.Now}, true
	}
	guardedEverywhere(t, guarded, func(t *testing.T, r mcp.Revision, w *realm) {
		ada := &person{realm: w, browser: logintest.Browser{User: "ada"}}
		c := w.mustDial(t, r, ada.program())
		wantWho(t, c, "look", "ada")
		wantWho(t, c, "change", "ada") // the token of the step-up is bound to a key, too
		wantWho(t, c, "look", "ada")
		must.CheckEqual(t, ada.asked.Load(), 2, "logins, want 2")
		must.CheckEqual(t, (&holder{t: t, w: w}).post("Bearer "+must.Get(w.issuer.Token("ada", w.url, "mcp"))(t), ""),
			"invalid_token", "a token without a key is accepted")

		h := holderOf(t, w, ada, &clock)
		own := "DPoP " + h.token
		code := h.post(own, h.proof(nil))
		must.That(t, code == "use_dpop_nonce" && h.nonce != "", "without a nonce: %q", code)
		once := h.proof(nil)
		must.Equal(t, h.post(own, once), "", "a valid proof is rejected")
		thief := *h
		private := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
		thief.key = &jose.JSONWebKey{Key: private}
		const no = "invalid_dpop_proof"
		for name, rejected := range map[string]struct{ authorization, proof, code string }{
			"a proof that was used before":    {own, once, no},
			"a stolen token as bearer token":  {"Bearer " + h.token, "", "invalid_token"},
			"a stolen token without a proof":  {own, "", no},
			"a stolen token with another key": {own, thief.proof(nil), no},
			"a proof for another host":        {own, h.proof(map[string]any{"htu": "https://other.example/mcp"}), no},
			"a proof for another path":        {own, h.proof(map[string]any{"htu": w.url + "/x"}), no},
			"a proof for another method":      {own, h.proof(map[string]any{"htm": http.MethodGet}), no},
			"a proof for another token":       {own, h.proof(map[string]any{"ath": "x"}), no},
			"a proof that was made long ago": {own, h.proof(map[string]any{"iat": time.Now().Add(-time.Hour).Unix()}),
				no},
			"an invalid nonce": {own,
				h.proof(map[string]any{"nonce": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}), "use_dpop_nonce"},
			"a stolen proof for another token": {"DPoP " + w.token("ada"), h.proof(nil), "invalid_token"},
		} {
			must.CheckEqual(t, h.post(rejected.authorization, rejected.proof), rejected.code, name)
		}
		clock.Store(int64(6 * time.Minute))
		must.CheckEqual(t, h.post(own, h.proof(nil)), "use_dpop_nonce", "an old nonce")
		must.CheckEqual(t, h.post(own, h.proof(nil)), "", "the new nonce")
		clock.Store(0)
		wantWho(t, c, "look", "ada")
	}, bound)
}

// scoped returns a server whose tools, prompt, resource and template require scopes.
func scoped(granted ...string) func() *server.Server {
	return func() *server.Server {
		s := &server.Server{LocalScopes: granted}
		ok := func(context.Context) (string, error) { return "ok", nil }
		server.AddTool(s, mcp.Tool{Name: "t", Description: "A tool."},
			func(ctx context.Context, _ struct{}) (string, error) { return ok(ctx) },
			server.RequireScopes("tool", "more"), server.RequireScopes("tool"))
		server.AddTool(s, mcp.Tool{Name: "late", Description: "Requires its scope in the handler."},
			func(ctx context.Context, _ struct{}) (string, error) { return "ok", auth.Require(ctx, "tool") })
		server.AddPrompt(s, mcp.Prompt{Name: "p"}, func(ctx context.Context, _ struct {
			A string `json:"a,omitempty" enum:"x,y"`
		}) (string, error) {
			return ok(ctx)
		}, server.RequireScopes("prompt"))
		server.AddResource(s, mcp.Resource{URI: "note://a", Name: "a"}, ok, server.RequireScopes("resource"))
		server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: "t://{x}", Name: "x"},
			func(ctx context.Context, _ struct {
				X string `json:"x"`
			}) (string, error) {
				return ok(ctx)
			}, server.RequireScopes("template"))
		return s
	}
}

// uses returns functions that use the parts of the server, by the required scopes.
func uses(c *client.Client) map[string]func(context.Context) error {
	tool := func(name string) func(context.Context) error {
		return func(ctx context.Context) error { _, err := client.CallTool[string](ctx, c, name, nil); return err }
	}
	read := func(uri string) func(context.Context) error {
		return func(ctx context.Context) error { _, err := c.ReadResource(ctx, uri); return err }
	}
	return map[string]func(context.Context) error{
		"tool more": tool("t"), "tool": tool("late"), "resource": read("note://a"), "template": read("t://b"),
		"prompt": func(ctx context.Context) error { _, err := c.GetPrompt(ctx, "p", nil); return err },
	}
}

func TestErrorNamesMissingScopes(t *testing.T) {
	everywhere(t, scoped(), func(t *testing.T, c *client.Client) {
		for scopes, use := range uses(c) {
			err := use(t.Context())
			var reported *jsonrpc.Error
			must.CheckThat(t, errors.As(err, &reported) &&
				strings.HasSuffix(reported.Message, "insufficient scope: the call needs "+scopes) &&
				strings.Contains(string(reported.Data), strings.Split(scopes, " ")[0]), "%s: %v", scopes, err)
		}
		n := 0
		for range c.Tools(t.Context()) {
			n++
		}
		must.CheckEqual(t, n, 2, "tools are listed, want 2: scopes do not hide tools")
	})
}

func TestLocalScopesAreNotGrantedOverHTTP(t *testing.T) {
	everywhere(t, scoped("tool", "more", "prompt", "resource", "template"), func(t *testing.T, c *client.Client) {
		if strings.Contains(t.Name(), "http") {
			err := uses(c)["tool"](t.Context())
			must.CheckThat(t, err != nil, "a client over HTTP has LocalScopes")
			return
		}
		for scopes, use := range uses(c) {
			must.Check(t, use(t.Context()), scopes)
		}
	})
}
