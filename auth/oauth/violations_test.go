package oauth_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/auth/oauth/internal/oauthtest"
	"github.com/parley-mcp/parley/auth/oauth/tokenstore"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/logintest"
	"github.com/parley-mcp/parley/internal/must"
)

// violations lists ways in which a server or an attacker breaks the rules, and the errors that follow. The environment
// also checks that no secret leaks and that no unrelated server receives a request.
var violations = []struct {
	rule, name string
	do         func(w *environment, c *oauth.Client)
	want       error
	noToken    bool // no request is sent to the token endpoint
}{
	// Rule O1: PKCE
	{"O1", "metadata without code_challenge_methods_supported",
		serverMetadata(func(w *environment, m map[string]any) {
			delete(m, "code_challenge_methods_supported")
		}), oauth.ErrNoPKCE, true},
	{"O1", "PKCE with plain only", serverMetadata(func(w *environment, m map[string]any) {
		m["code_challenge_methods_supported"] = []string{"plain"}
	}), oauth.ErrNoPKCE, true},

	// Rule O3: the resource
	{"O3", "resource of another server", resourceMetadata(func(w *environment, m map[string]any) {
		m["resource"] = "https://other.example/mcp"
	}), oauth.ErrResourceMismatch, true},

	// Rule O4: discovery
	{"O4", "no authorization server", resourceMetadata(func(w *environment, m map[string]any) {
		m["authorization_servers"] = []string{}
	}), oauth.ErrDiscovery, true},
	{"O4", "resource_metadata is not found", func(w *environment, c *oauth.Client) {
		w.ChallengeURL = "/missing"
	}, oauth.ErrDiscovery, true},
	{"O4", "HTTP status 502 for the metadata", func(w *environment, c *oauth.Client) {
		w.ChallengeURL = ""
		w.ServeMCP = oauthtest.Only(w.ResourcePath, func(rw http.ResponseWriter, r *http.Request) {
			rw.WriteHeader(http.StatusBadGateway)
		})
	}, oauth.ErrDiscovery, true},
	{"O4", "no metadata of the authorization server", func(w *environment, c *oauth.Client) {
		w.IssuerPath = "/nowhere"
	}, oauth.ErrDiscovery, true},
	{"O4", "duplicate name", func(w *environment, c *oauth.Client) {
		w.ServeAS = oauthtest.Only(w.IssuerPath, func(rw http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(rw, `{"issuer":%q,"token_endpoint":"%[1]s/token","token_endpoint":"%s/token"}`, w.AS.URL,
				w.Unrelated.URL)
		})
	}, oauth.ErrDiscovery, true},
	{"O4", "metadata is too long", func(w *environment, c *oauth.Client) {
		w.ServeAS = oauthtest.Only(w.IssuerPath, func(rw http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(rw, `{"issuer":"`+strings.Repeat("x", 300<<10))
		})
	}, oauth.ErrInvalidResponse, true},

	// Rule O5: the issuer of metadata
	{"O5", "metadata of another issuer", serverMetadata(func(w *environment, m map[string]any) {
		m["issuer"] = "https://honest.example"
	}), oauth.ErrIssuerMismatch, true},

	// Rule O6: the issuer of responses
	{"O6", "response from another issuer", authorizationResponse(func(w *environment, a url.Values) {
		a.Set("iss", "https://honest.example")
	}), oauth.ErrIssuerMismatch, true},
	{"O6", "response without the declared iss", authorizationResponse(func(w *environment, a url.Values) {
		a.Del("iss")
	}), oauth.ErrIssuerMismatch, true},
	{"O6", "error from another issuer", authorizationResponse(func(w *environment, a url.Values) {
		a.Del("code")
		a.Set("iss", "https://honest.example")
		a.Set("error", "lies")
	}), oauth.ErrIssuerMismatch, true},

	// Rule O8: state
	{"O8", "another state", authorizationResponse(func(w *environment, a url.Values) {
		a.Set("state", "other")
	}), oauth.ErrState, true},

	// Rule O9: redirect URIs
	{"O9", "redirect URI over http", func(w *environment, c *oauth.Client) {
		c.Interaction = &logintest.Interaction{RedirectURI: "http://program.example/callback"}
	}, oauth.ErrInsecureURL, true},

	// Rule O10: URLs
	{"O10", "authorization endpoint is a javascript URL",
		serverMetadata(func(w *environment, m map[string]any) {
			m["authorization_endpoint"] = "javascript:alert(1)"
		}), oauth.ErrInsecureURL, true},
	{"O10", "token endpoint over http", serverMetadata(func(w *environment, m map[string]any) {
		m["token_endpoint"] = "http://as.example/token"
	}), oauth.ErrInsecureURL, true},
	{"O10", "registration endpoint over http", serverMetadata(func(w *environment, m map[string]any) {
		m["registration_endpoint"] = "http://as.example/register"
	}), oauth.ErrInsecureURL, true},
	{"O10", "issuer over http", resourceMetadata(func(w *environment, m map[string]any) {
		m["authorization_servers"] = []string{"http://as.example"}
	}), oauth.ErrInsecureURL, true},
	{"O10", "issuer with a query", resourceMetadata(func(w *environment, m map[string]any) {
		m["authorization_servers"] = []string{"https://as.example?x"}
	}), oauth.ErrInsecureURL, true},
	{"O10", "resource_metadata over http", func(w *environment, c *oauth.Client) {
		w.ChallengeURL = "http://169.254.169.254/latest"
	}, oauth.ErrInsecureURL, true},

	// Rule O12: private addresses
	{"O12", "resource_metadata at the cloud metadata service",
		func(w *environment, c *oauth.Client) {
			w.ChallengeURL = "https://169.254.169.254/latest"
		}, oauth.ErrForbiddenAddress, true},
	{"O12", "issuer in a private network", resourceMetadata(func(w *environment, m map[string]any) {
		m["authorization_servers"] = []string{"https://10.0.0.1"}
	}), oauth.ErrForbiddenAddress, true},
	{"O12", "issuer with a mapped IPv4 address", resourceMetadata(func(w *environment, m map[string]any) {
		m["authorization_servers"] = []string{"https://[::ffff:192.168.0.1]"}
	}), oauth.ErrForbiddenAddress, true},
	{"O12", "registration endpoint in a private network",
		serverMetadata(func(w *environment, m map[string]any) {
			m["registration_endpoint"] = "https://[fd00::1]/register"
		}), oauth.ErrForbiddenAddress, true},
	{"O12", "token endpoint in a private network", serverMetadata(func(w *environment, m map[string]any) {
		m["token_endpoint"] = "https://100.100.100.200/token"
	}), oauth.ErrForbiddenAddress, true},
	{"O12", "resource metadata redirects", redirect("mcp", "/.well-known/oauth-protected-resource/mcp"),
		oauth.ErrDiscovery, true},
	{"O12", "server metadata redirects", redirect("as", "/.well-known/oauth-authorization-server"), oauth.ErrDiscovery,
		true},
	{"O12", "registration endpoint redirects", redirect("as", "/register"), oauth.ErrRegistration, true},
	{"O12", "token endpoint redirects", redirect("as", "/token"), &oauth.ServerError{}, false},

	// Rule O13: scopes
	{"O13", "server always requires the same additional scope", func(w *environment, c *oauth.Client) {
		w.Authenticated = func(rw http.ResponseWriter, r *http.Request) bool {
			w.Challenge(rw, http.StatusForbidden, "Bearer", "admin", "insufficient_scope")
			return true
		}
	}, oauth.ErrInsufficientScope, false},
	{"O13", "server does not name the missing scopes", func(w *environment, c *oauth.Client) {
		w.Authenticated = func(rw http.ResponseWriter, r *http.Request) bool {
			w.Challenge(rw, http.StatusForbidden, "Bearer", "", "insufficient_scope")
			return true
		}
	}, oauth.ErrInsufficientScope, false},
	{"O13", "server requires another scope each time", func(w *environment, c *oauth.Client) {
		scope := "a"
		w.Authenticated = func(rw http.ResponseWriter, r *http.Request) bool {
			scope += "a"
			w.Challenge(rw, http.StatusForbidden, "Bearer", scope, "insufficient_scope")
			return true
		}
	}, oauth.ErrTooManyAttempts, false},
	{"O13", "server rejects a new token", func(w *environment, c *oauth.Client) {
		w.OnToken = func(url.Values, map[string]any) { w.RevokeAll() }
	}, oauth.ErrTokenRejected, false},
	{"O13", "Approve declines", func(w *environment, c *oauth.Client) {
		c.Approve = func(context.Context, oauth.AuthorizationRequest) ([]string, error) {
			return nil, errors.New("too much")
		}
	}, oauth.ErrDeclined, true},

	// Rules O14, O15: registration
	{"O14", "MetadataURL without a path", func(w *environment, c *oauth.Client) {
		serverMetadata(func(w *environment, m map[string]any) {
			m["client_id_metadata_document_supported"] = true
		})(w, c)
		c.MetadataURL = "https://program.example"
	}, oauth.ErrRegistration, true},
	{"O15", "no way to register", serverMetadata(func(w *environment, m map[string]any) {
		delete(m, "registration_endpoint")
	}), oauth.ErrRegistration, true},
	{"O15", "registration fails", func(w *environment, c *oauth.Client) {
		w.ServeAS = oauthtest.Only("/register", func(rw http.ResponseWriter, r *http.Request) {
			w.JSON(rw, http.StatusBadRequest, map[string]any{"error": "invalid_redirect_uri"})
		})
	}, oauth.ErrRegistration, true},

	// Tokens
	{"U7", "token with a line break", tokenResponse(func(a map[string]any) {
		a["access_token"] = "x\r\nHost: evil"
	}), oauth.ErrInvalidResponse, false},
	{"U7", "no token", tokenResponse(func(a map[string]any) {
		delete(a, "access_token")
	}), oauth.ErrInvalidResponse, false},
	{"U7", "unknown token type", tokenResponse(func(a map[string]any) {
		a["token_type"] = "mac"
	}), oauth.ErrInvalidResponse, false},
	{"U7", "DPoP token was not requested", tokenResponse(func(a map[string]any) {
		a["token_type"] = "DPoP"
	}), oauth.ErrInvalidResponse, false},
	{"U7", "bearer token instead of a DPoP token", resourceMetadata(func(w *environment, m map[string]any) {
		m["dpop_bound_access_tokens_required"] = true
	}), oauth.ErrInvalidResponse, false},
	{"R6", "error contains the request", func(w *environment, c *oauth.Client) {
		w.ServeAS = oauthtest.Only("/token", func(rw http.ResponseWriter, r *http.Request) {
			r.ParseForm()
			description := r.PostForm.Encode() + r.Header.Get("Authorization")
			w.JSON(rw, http.StatusBadRequest, map[string]any{"error": "invalid_grant",
				"error_description": description})
		})
	}, &oauth.ServerError{}, false},
}

func resourceMetadata(change func(*environment, map[string]any)) func(*environment, *oauth.Client) {
	return func(w *environment, _ *oauth.Client) { w.OnResource = func(m map[string]any) { change(w, m) } }
}

func serverMetadata(change func(*environment, map[string]any)) func(*environment, *oauth.Client) {
	return func(w *environment, _ *oauth.Client) { w.OnIssuer = func(m map[string]any) { change(w, m) } }
}

func authorizationResponse(change func(*environment, url.Values)) func(*environment, *oauth.Client) {
	return func(w *environment, _ *oauth.Client) { w.OnAuthorize = func(_, a url.Values) { change(w, a) } }
}

func tokenResponse(change func(map[string]any)) func(*environment, *oauth.Client) {
	return func(w *environment, _ *oauth.Client) { w.OnToken = func(_ url.Values, a map[string]any) { change(a) } }
}

// redirect redirects requests for a path to the unrelated server.
func redirect(server, path string) func(*environment, *oauth.Client) {
	return func(w *environment, _ *oauth.Client) {
		send := oauthtest.Only(path, func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, w.Unrelated.URL+path, http.StatusTemporaryRedirect)
		})
		if server == "mcp" {
			w.ServeMCP = send
		} else {
			w.ServeAS = send
		}
	}
}

// Rules O1, O3, O4, O5, O6, O8, O9, O10, O12, O13, O14, O15, U7: each violation leads to its
// error, and not to a token.
func TestViolationsLeadToErrors(t *testing.T) {
	for _, v := range violations {
		t.Run(v.rule+" "+v.name, func(t *testing.T) {
			w := newEnvironment(t)
			c := w.Client()
			v.do(w, c)
			_, err := w.Dial(c, "")
			var serverError *oauth.ServerError
			_, isServerError := v.want.(*oauth.ServerError)
			if isServerError && !errors.As(err, &serverError) || !isServerError && !errors.Is(err, v.want) {
				t.Fatalf("%v, want %v", err, v.want)
			}
			must.CheckIs(t, err, call.ErrUnauthorized)
			if strings.Contains(err.Error(), oauthtest.Secret) || strings.Contains(err.Error(), "lies") {
				t.Errorf("the error contains a secret or the text of an attacker: %v", err)
			}
			if n := w.Count("as POST /token"); v.noToken && n > 0 {
				t.Errorf("%d requests to the token endpoint", n)
			}
			n := w.Count("as GET /authorize")
			must.CheckThat(t, n <= 3, "O13: %d authorizations", n)
		})
	}
}

// Rule O13: after the user has declined, further requests fail without asking again.
func TestDeclinedAuthorizationIsRemembered(t *testing.T) {
	w := newEnvironment(t)
	c := w.Client()
	w.OnAuthorize = func(_, a url.Values) {
		a.Del("code")
		a.Set("error", "access_denied")
	}
	for range 5 {
		_, err := w.Dial(c, "")
		must.That(t, err != nil, "dial succeeded")
	}
	must.Equal(t, w.Count("as GET /authorize"), 1)
}

// Rule O13: a step-up authorization requests the previous scopes and the scopes of the challenge.
func TestStepUpRequestsTheUnion(t *testing.T) {
	w := newEnvironment(t)
	w.Authenticated = func(rw http.ResponseWriter, r *http.Request) bool {
		w.Mu.Lock()
		requested := w.Queries[len(w.Queries)-1].Get("scope")
		w.Mu.Unlock()
		if strings.Contains(requested, "admin") {
			return false
		}
		w.Challenge(rw, http.StatusForbidden, "Bearer", "admin", "insufficient_scope")
		return true
	}
	must.Get(w.Dial(w.Client(), ""))(t)
	must.Equal(t, w.Queries[1].Get("scope"), "tools admin")
}

// Rule O7: a new authorization server of the MCP server gets neither the old client nor the old
// token, and a registration for the MCP server is not used there.
func TestChangedAuthorizationServer(t *testing.T) {
	for _, configured := range []bool{false, true} {
		w, other := newEnvironment(t), newEnvironment(t)
		c := w.Client()
		if configured {
			c.Registrations = []oauth.Registration{{Server: w.URL(), ClientID: "ours", ClientSecret: oauthtest.Secret + "ours"}}
		}
		mc := must.Get(w.Dial(c, ""))(t)
		w.OnResource = func(m map[string]any) { m["authorization_servers"] = []string{other.AS.URL} }
		other.OnToken = func(form url.Values, a map[string]any) { // its tokens are valid, too
			w.Mu.Lock()
			defer w.Mu.Unlock()
			w.Valid[a["access_token"].(string)] = form.Get("resource")
		}
		w.RevokeAll()
		w.Mu.Lock()
		w.Dialed = nil
		w.Mu.Unlock()
		err := w.Greet(mc)
		w.Mu.Lock()
		w.Dialed = slices.DeleteFunc(w.Dialed, func(a string) bool { return "http://"+a == other.AS.URL })
		w.Mu.Unlock()
		if configured {
			must.CheckThat(t, errors.Is(err, oauth.ErrIssuerChanged) && other.Count("as POST /token") <= 0 &&
				other.Count("as GET /authorize") <= 0, "registration for the MCP server: %v", err)
			continue
		}
		must.Do(t, err)
		must.CheckEqual(t, other.Count("as POST /register"), 1)
	}
}

// Rule O7: a registration for an MCP server is bound to its first authorization server, even if
// the authorization fails, and even in the next process.
func TestRegistrationIsBoundToTheFirstIssuer(t *testing.T) {
	w, other := newEnvironment(t), newEnvironment(t)
	store := new(tokenstore.Memory)
	dialInNewProcess := func() error {
		c := w.Client()
		c.Store = store
		c.Registrations = []oauth.Registration{{Server: w.URL(), ClientID: "ours", ClientSecret: oauthtest.Secret + "ours"}}
		_, err := w.Dial(c, "")
		return err
	}
	w.OnToken = func(_ url.Values, body map[string]any) { body["error"] = "server_error" }
	if err := dialInNewProcess(); err == nil || w.Count("as POST /token") == 0 {
		t.Fatalf("first attempt: %v", err)
	}
	w.OnResource = func(m map[string]any) { m["authorization_servers"] = []string{other.AS.URL} }
	err := dialInNewProcess()
	must.CheckThat(t, errors.Is(err, oauth.ErrIssuerChanged) && other.Count("as POST /token") <= 0 &&
		other.Count("as GET /authorize") <= 0, "second attempt, with another issuer: %v", err)
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Dialed = slices.DeleteFunc(w.Dialed, func(a string) bool { return "http://"+a == other.AS.URL })
}

// registrar gives each registration another client identifier. requests returns the client
// and the grant type of each token request.
func (w *environment) registrar() (requests func() []string) {
	registered := 0
	var tokens []string
	w.ServeAS = func(rw http.ResponseWriter, r *http.Request) bool {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		switch r.URL.Path {
		case "/register":
			registered++
			w.JSON(rw, http.StatusCreated, map[string]any{
				"client_id": fmt.Sprint("client-", registered), "client_secret": oauthtest.Secret + "client",
				"token_endpoint_auth_method": "client_secret_basic",
			})
			return true
		case "/token":
			r.ParseForm()
			id, _, _ := r.BasicAuth()
			tokens = append(tokens, id+" "+r.PostForm.Get("grant_type"))
		}
		return false
	}
	return func() []string {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		return slices.Clone(tokens)
	}
}

// withRedirectURI returns an Interaction with another redirect URI.
func (w *environment) withRedirectURI(redirect string) oauth.Interaction {
	return &logintest.Interaction{RedirectURI: redirect, Open: oauthtest.OpenPage}
}

// A token is refreshed by the client that it was issued to, even if another login has
// replaced the registration.
func TestRefreshUsesTheOriginalClient(t *testing.T) {
	w := newEnvironment(t)
	requests := w.registrar()
	store := &tokenstore.Memory{}
	w.expired(store)
	other := w.Client()
	other.Store, other.Interaction = store, w.withRedirectURI("http://localhost:4000/callback")
	second := newEnvironment(t)
	second.MCP.Close()
	second.MCP = second.Start("mcp", func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == second.ResourcePath {
			w.JSON(rw, http.StatusOK, map[string]any{"resource": second.URL(),
				"authorization_servers": []string{w.AS.URL}})
			return
		}
		second.Challenge(rw, http.StatusUnauthorized, "Bearer", "", "")
	})
	must.Do(t, other.Login(t.Context(), second.URL()))
	w.Mu.Lock()
	w.Dialed = nil // dialling the second server is allowed
	w.Mu.Unlock()
	c := w.Client()
	c.Store = store
	header := must.Get(authorize(c, w.URL()))(t)
	must.That(t, header != "", "%q", header)
	must.Do(t, c.Logout(t.Context(), w.URL()))
	if got, want := requests(), []string{"client-1 authorization_code", "client-2 authorization_code",
		"client-1 refresh_token"}; !slices.Equal(got, want) {
		t.Errorf("token requests %q, want %q", got, want)
	}
}

// An authorization server does not redirect a client that it does not recognize. The next
// login therefore registers again.
func TestLoginWithoutRedirectForgetsTheRegistration(t *testing.T) {
	w := newEnvironment(t)
	requests := w.registrar()
	closed := errors.New("the user closed the page")
	store := &tokenstore.Memory{}
	c := w.Client()
	c.Store, c.Interaction = store, &logintest.Interaction{RedirectURI: "http://localhost:3000/callback",
		Open: func(context.Context, string) (string, error) { return "", closed }}
	must.Is(t, c.Login(t.Context(), w.URL()), closed)
	c = w.Client()
	c.Store = store
	must.Do(t, c.Login(t.Context(), w.URL()))
	if got, want := requests(), []string{"client-2 authorization_code"}; !slices.Equal(got, want) {
		t.Errorf("token requests %q, want %q", got, want)
	}
}

// A registration from PromptRegistration is reused with another port of the loopback interface, and after a login with
// a scope that the server does not know.
func TestPromptRegistrationIsCalledOnce(t *testing.T) {
	w := newEnvironment(t)
	w.OnIssuer = func(m map[string]any) { delete(m, "registration_endpoint") }
	store, calls := &tokenstore.Memory{}, 0
	for i, redirect := range []string{"http://127.0.0.1:3000/callback", "http://127.0.0.1:3000/callback",
		"http://127.0.0.1:3001/callback"} {
		w.OnAuthorize = func(_, redirect url.Values) {
			if i == 1 {
				redirect.Del("code")
				redirect.Set("error", "invalid_scope")
			}
		}
		c := w.Client()
		c.Store, c.Interaction = store, w.withRedirectURI(redirect)
		c.PromptRegistration = func(context.Context, string) (*oauth.Registration, error) {
			calls++
			return &oauth.Registration{ClientID: "prompted"}, nil
		}
		err := c.Login(t.Context(), w.URL())
		must.That(t, (err != nil) == (i == 1), "%v", err)
	}
	must.CheckEqual(t, calls, 1)
}
