package oauth_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/client"
)

// Each of these is something that a server, or somebody between, does wrong, and the
// error it ends with. What they have in common is checked by the world: no secret gets
// where it does not belong, and nobody is asked who has no part in it.
var misbehaviours = []struct {
	rule, what string
	do         func(w *world, c *oauth.Client)
	want       error
	noToken    bool // no request reaches the token endpoint
}{
	// O1: PKCE
	{"O1", "metadata without code_challenge_methods_supported", meta(func(w *world, m map[string]any) { delete(m, "code_challenge_methods_supported") }), oauth.ErrNoPKCE, true},
	{"O1", "plain only", meta(func(w *world, m map[string]any) { m["code_challenge_methods_supported"] = []string{"plain"} }), oauth.ErrNoPKCE, true},

	// O3: the resource
	{"O3", "another server's resource", prm(func(w *world, m map[string]any) { m["resource"] = "https://other.example/mcp" }), oauth.ErrResourceMismatch, true},
	{"O3", "another path's resource", prm(func(w *world, m map[string]any) { m["resource"] = w.mcp.URL + "/other" }), oauth.ErrResourceMismatch, true},
	{"O3", "a path that only begins alike", prm(func(w *world, m map[string]any) { m["resource"] = w.mcp.URL + "/m" }), oauth.ErrResourceMismatch, true},
	{"O3", "the whole host's, found below one path", prm(func(w *world, m map[string]any) { m["resource"] = w.mcp.URL }), oauth.ErrResourceMismatch, true},
	{"O3", "a resource with a fragment", prm(func(w *world, m map[string]any) { m["resource"] = w.url() + "#x" }), oauth.ErrResourceMismatch, true},
	{"O3", "no resource", prm(func(w *world, m map[string]any) { delete(m, "resource") }), oauth.ErrResourceMismatch, true},

	// O4: discovery
	{"O4", "no authorization server", prm(func(w *world, m map[string]any) { m["authorization_servers"] = []string{} }), oauth.ErrDiscovery, true},
	{"O4", "a hint to nothing", func(w *world, c *oauth.Client) { w.hintAt = "/nothing" }, oauth.ErrDiscovery, true},
	{"O4", "trouble where metadata should be", func(w *world, c *oauth.Client) {
		w.hintAt = ""
		w.serveMCP = func(rw http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == w.prmAt {
				rw.WriteHeader(http.StatusBadGateway)
				return true
			}
			return false
		}
	}, oauth.ErrDiscovery, true},
	{"O4", "no metadata of the authorization server", func(w *world, c *oauth.Client) { w.metaAt = "/nowhere" }, oauth.ErrDiscovery, true},
	{"O4", "a name that comes twice", func(w *world, c *oauth.Client) {
		w.serveAS = func(rw http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != w.metaAt {
				return false
			}
			rw.Write([]byte(`{"issuer":"` + w.as.URL + `","token_endpoint":"` + w.as.URL + `/token","token_endpoint":"` + w.bystander.URL + `/token"}`))
			return true
		}
	}, oauth.ErrDiscovery, true},
	{"O4", "metadata without an end", func(w *world, c *oauth.Client) {
		w.serveAS = func(rw http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == w.metaAt {
				rw.Write([]byte(`{"issuer":"` + strings.Repeat("x", 300<<10)))
				return true
			}
			return false
		}
	}, oauth.ErrInvalidResponse, true},

	// O5: the issuer of metadata
	{"O5", "metadata about another issuer", meta(func(w *world, m map[string]any) { m["issuer"] = "https://honest.example" }), oauth.ErrIssuerMismatch, true},
	{"O5", "an issuer that differs by a slash", meta(func(w *world, m map[string]any) { m["issuer"] = w.as.URL + "/" }), oauth.ErrIssuerMismatch, true},

	// O6: the issuer of responses
	{"O6", "a response from another issuer", answer(func(w *world, a url.Values) { a.Set("iss", "https://honest.example") }), oauth.ErrIssuerMismatch, true},
	{"O6", "one that is not advertised, from another issuer", func(w *world, c *oauth.Client) {
		meta(func(w *world, m map[string]any) { delete(m, "authorization_response_iss_parameter_supported") })(w, c)
		answer(func(w *world, a url.Values) { a.Set("iss", "https://honest.example") })(w, c)
	}, oauth.ErrIssuerMismatch, true},
	{"O6", "a response without the issuer that was promised", answer(func(w *world, a url.Values) { a.Del("iss") }), oauth.ErrIssuerMismatch, true},
	{"O6", "an issuer that differs by a slash", answer(func(w *world, a url.Values) { a.Set("iss", w.as.URL+"/") }), oauth.ErrIssuerMismatch, true},
	{"O6", "an error of another issuer", answer(func(w *world, a url.Values) {
		a.Del("code")
		a.Set("iss", "https://honest.example")
		a.Set("error", "lies")
	}), oauth.ErrIssuerMismatch, true},

	// O8: state
	{"O8", "another state", answer(func(w *world, a url.Values) { a.Set("state", "other") }), oauth.ErrState, true},
	{"O8", "no state", answer(func(w *world, a url.Values) { a.Del("state") }), oauth.ErrState, true},
	{"O8", "two states", answer(func(w *world, a url.Values) { a.Add("state", "other") }), oauth.ErrState, true},
	{"O8", "two codes", answer(func(w *world, a url.Values) { a.Add("code", "other") }), oauth.ErrState, true},
	{"O8", "no code", answer(func(w *world, a url.Values) { a.Del("code") }), oauth.ErrInvalidResponse, true},

	// O9: redirects
	{"O9", "a redirect to plain http elsewhere", func(w *world, c *oauth.Client) {
		c.Interaction = &oauth.Manual{RedirectURI: "http://program.example/callback"}
	}, oauth.ErrInsecureURL, true},

	// O10: addresses
	{"O10", "a script for an authorization endpoint", meta(func(w *world, m map[string]any) { m["authorization_endpoint"] = "javascript:alert(1)" }), oauth.ErrInsecureURL, true},
	{"O10", "a data URL for one", meta(func(w *world, m map[string]any) { m["authorization_endpoint"] = "data:text/html,x" }), oauth.ErrInsecureURL, true},
	{"O10", "a file for one", meta(func(w *world, m map[string]any) { m["authorization_endpoint"] = "file:///etc/passwd" }), oauth.ErrInsecureURL, true},
	{"O10", "vbscript for one", meta(func(w *world, m map[string]any) { m["authorization_endpoint"] = "vbscript:x" }), oauth.ErrInsecureURL, true},
	{"O10", "a token endpoint without TLS", meta(func(w *world, m map[string]any) { m["token_endpoint"] = "http://as.example/token" }), oauth.ErrInsecureURL, true},
	{"O10", "a token endpoint with a user name", meta(func(w *world, m map[string]any) { m["token_endpoint"] = "https://as.example@evil.example/token" }), oauth.ErrInsecureURL, true},
	{"O10", "a registration endpoint without TLS", meta(func(w *world, m map[string]any) { m["registration_endpoint"] = "http://as.example/register" }), oauth.ErrInsecureURL, true},
	{"O10", "an issuer without TLS", prm(func(w *world, m map[string]any) { m["authorization_servers"] = []string{"http://as.example"} }), oauth.ErrInsecureURL, true},
	{"O10", "an issuer with a query", prm(func(w *world, m map[string]any) { m["authorization_servers"] = []string{"https://as.example?x"} }), oauth.ErrInsecureURL, true},
	{"O10", "a hint without TLS", func(w *world, c *oauth.Client) { w.hintAt = "http://169.254.169.254/latest" }, oauth.ErrInsecureURL, true},

	// O12: what is inside
	{"O12", "a hint into the cloud's metadata", func(w *world, c *oauth.Client) { w.hintAt = "https://169.254.169.254/latest" }, oauth.ErrForbiddenAddress, true},
	{"O12", "an issuer in a private network", prm(func(w *world, m map[string]any) { m["authorization_servers"] = []string{"https://10.0.0.1"} }), oauth.ErrForbiddenAddress, true},
	{"O12", "a private address in the form of IPv6", prm(func(w *world, m map[string]any) {
		m["authorization_servers"] = []string{"https://[::ffff:192.168.0.1]"}
	}), oauth.ErrForbiddenAddress, true},
	{"O12", "a registration endpoint inside", meta(func(w *world, m map[string]any) { m["registration_endpoint"] = "https://[fd00::1]/register" }), oauth.ErrForbiddenAddress, true},
	{"O12", "a token endpoint inside", meta(func(w *world, m map[string]any) { m["token_endpoint"] = "https://100.100.100.200/token" }), oauth.ErrForbiddenAddress, true},
	{"O12", "metadata that redirects", redirect("mcp", "/.well-known/oauth-protected-resource/mcp"), oauth.ErrDiscovery, true},
	{"O12", "an authorization server's metadata that redirects", redirect("as", "/.well-known/oauth-authorization-server"), oauth.ErrDiscovery, true},
	{"O12", "a registration endpoint that redirects", redirect("as", "/register"), oauth.ErrRegistration, true},
	{"O12", "a token endpoint that redirects", redirect("as", "/token"), &oauth.ServerError{}, false},

	// O13: scopes
	{"O13", "a server that always wants more", func(w *world, c *oauth.Client) {
		w.authenticated = func(rw http.ResponseWriter, r *http.Request) bool {
			w.challenge(rw, http.StatusForbidden, "Bearer", "admin", "insufficient_scope")
			return true
		}
	}, oauth.ErrInsufficientScope, false},
	{"O13", "one that does not say what", func(w *world, c *oauth.Client) {
		w.authenticated = func(rw http.ResponseWriter, r *http.Request) bool {
			w.challenge(rw, http.StatusForbidden, "Bearer", "", "insufficient_scope")
			return true
		}
	}, oauth.ErrInsufficientScope, false},
	{"O13", "one that wants something else each time", func(w *world, c *oauth.Client) {
		scope := "a"
		w.authenticated = func(rw http.ResponseWriter, r *http.Request) bool {
			scope += "a"
			w.challenge(rw, http.StatusForbidden, "Bearer", scope, "insufficient_scope")
			return true
		}
	}, oauth.ErrTooManyAttempts, false},
	{"O13", "one that refuses what it asks for", func(w *world, c *oauth.Client) {
		w.onToken = func(url.Values, map[string]any) { w.revokeAll() }
	}, oauth.ErrTokenRejected, false},
	{"O13", "scopes that the program does not want", func(w *world, c *oauth.Client) {
		c.Approve = func(context.Context, oauth.AuthorizationRequest) ([]string, error) {
			return nil, errors.New("too much")
		}
	}, oauth.ErrDeclined, true},

	// O14, O15: registration
	{"O14", "a document's URL without a path", func(w *world, c *oauth.Client) {
		meta(func(w *world, m map[string]any) { m["client_id_metadata_document_supported"] = true })(w, c)
		c.MetadataURL = "https://program.example"
	}, oauth.ErrRegistration, true},
	{"O15", "no way to be known", meta(func(w *world, m map[string]any) { delete(m, "registration_endpoint") }), oauth.ErrRegistration, true},
	{"O15", "a registration that is refused", func(w *world, c *oauth.Client) {
		w.serveAS = func(rw http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/register" {
				return false
			}
			w.json(rw, http.StatusBadRequest, map[string]any{"error": "invalid_redirect_uri"})
			return true
		}
	}, oauth.ErrRegistration, true},

	// Tokens
	{"U7", "a token that would break a header", token(func(a map[string]any) { a["access_token"] = "x\r\nHost: evil" }), oauth.ErrInvalidResponse, false},
	{"U7", "no token", token(func(a map[string]any) { delete(a, "access_token") }), oauth.ErrInvalidResponse, false},
	{"U7", "a token of another type", token(func(a map[string]any) { a["token_type"] = "mac" }), oauth.ErrInvalidResponse, false},
	{"U7", "a bound token that was not asked for", token(func(a map[string]any) { a["token_type"] = "DPoP" }), oauth.ErrInvalidResponse, false},
	{"U7", "a bearer token where a bound one is needed", prm(func(w *world, m map[string]any) { m["dpop_bound_access_tokens_required"] = true }), oauth.ErrInvalidResponse, false},
	{"R6", "an error that repeats what was sent", func(w *world, c *oauth.Client) {
		w.serveAS = func(rw http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/token" {
				return false
			}
			r.ParseForm()
			w.json(rw, http.StatusBadRequest, map[string]any{"error": "invalid_grant", "error_description": r.PostForm.Encode() + r.Header.Get("Authorization")})
			return true
		}
	}, &oauth.ServerError{}, false},
}

func prm(change func(*world, map[string]any)) func(*world, *oauth.Client) {
	return func(w *world, _ *oauth.Client) { w.prm = func(m map[string]any) { change(w, m) } }
}

func meta(change func(*world, map[string]any)) func(*world, *oauth.Client) {
	return func(w *world, _ *oauth.Client) { w.meta = func(m map[string]any) { change(w, m) } }
}

func answer(change func(*world, url.Values)) func(*world, *oauth.Client) {
	return func(w *world, _ *oauth.Client) { w.onAuthorize = func(_, a url.Values) { change(w, a) } }
}

func token(change func(map[string]any)) func(*world, *oauth.Client) {
	return func(w *world, _ *oauth.Client) { w.onToken = func(_ url.Values, a map[string]any) { change(a) } }
}

// redirect sends whoever comes to a path to somebody else.
func redirect(server, path string) func(*world, *oauth.Client) {
	return func(w *world, _ *oauth.Client) {
		send := func(rw http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != path {
				return false
			}
			http.Redirect(rw, r, w.bystander.URL+path, http.StatusTemporaryRedirect)
			return true
		}
		if server == "mcp" {
			w.serveMCP = send
		} else {
			w.serveAS = send
		}
	}
}

// O1, O3, O4, O5, O6, O8, O9, O10, O12, O13, O14, O15, U7: whatever is done wrong ends
// in an error that says what, and not in a token.
func TestMisbehaviourEndsInAnError(t *testing.T) {
	for _, m := range misbehaviours {
		t.Run(m.rule+" "+m.what, func(t *testing.T) {
			w := newWorld(t)
			c := w.client()
			m.do(w, c)
			_, err := w.dial(c, "")
			var refused *oauth.ServerError
			_, isServerError := m.want.(*oauth.ServerError)
			if isServerError && !errors.As(err, &refused) || !isServerError && !errors.Is(err, m.want) {
				t.Fatalf("it ends with %v, not with %v", err, m.want)
			}
			if !errors.Is(err, client.ErrUnauthorized) {
				t.Errorf("%v is not ErrUnauthorized", err)
			}
			if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "lies") {
				t.Errorf("the error shows too much: %v", err)
			}
			if n := w.count("as POST /token"); m.noToken && n > 0 {
				t.Errorf("%d requests at the token endpoint", n)
			}
			if n := w.count("as GET /authorize"); n > 3 {
				t.Errorf("O13: the user was asked %d times", n)
			}
		})
	}
}

// O13: what has just failed does not trouble the user again.
func TestAFailureIsRemembered(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	w.onAuthorize = func(_, a url.Values) {
		a.Del("code")
		a.Set("error", "access_denied")
	}
	for range 5 {
		if _, err := w.dial(c, ""); err == nil {
			t.Fatal("let in")
		}
	}
	if n := w.count("as GET /authorize"); n != 1 {
		t.Fatalf("the user said no %d times", n)
	}
}

// O13: what was asked for before is asked for again, with what is wanted now.
func TestAStepUpIsTheUnion(t *testing.T) {
	w := newWorld(t)
	w.authenticated = func(rw http.ResponseWriter, r *http.Request) bool {
		w.mu.Lock()
		asked := w.queries[len(w.queries)-1].Get("scope")
		w.mu.Unlock()
		if strings.Contains(asked, "admin") {
			return false
		}
		w.challenge(rw, http.StatusForbidden, "Bearer", "admin", "insufficient_scope")
		return true
	}
	if _, err := w.dial(w.client(), ""); err != nil {
		t.Fatal(err)
	}
	if got := w.queries[1].Get("scope"); got != "tools admin" {
		t.Fatalf("%q was asked for", got)
	}
}

// O7: another authorization server gets neither the old client nor the old token, and
// a client that was bound to the server by hand is not taken there at all.
func TestAnotherAuthorizationServerIsAStranger(t *testing.T) {
	for _, bound := range []bool{false, true} {
		w, other := newWorld(t), newWorld(t)
		c := w.client()
		if bound {
			c.Registrations = []oauth.Registration{{Server: w.url(), ClientID: "ours", ClientSecret: secret + "ours"}}
		}
		mc, err := w.dial(c, "")
		if err != nil {
			t.Fatal(err)
		}
		w.prm = func(m map[string]any) { m["authorization_servers"] = []string{other.as.URL} }
		other.onToken = func(form url.Values, a map[string]any) { // its tokens are good here
			w.mu.Lock()
			defer w.mu.Unlock()
			w.valid[a["access_token"].(string)] = form.Get("resource")
		}
		w.revokeAll()
		w.mu.Lock()
		w.egress = nil
		w.mu.Unlock()
		err = w.greet(mc)
		w.mu.Lock()
		w.egress = slices.DeleteFunc(w.egress, func(a string) bool { return "http://"+a == other.as.URL })
		w.mu.Unlock()
		if bound {
			if !errors.Is(err, oauth.ErrIssuerChanged) || other.count("as POST /token") > 0 || other.count("as GET /authorize") > 0 {
				t.Errorf("a client that is bound: %v", err)
			}
			continue
		}
		if err != nil || other.count("as POST /register") != 1 {
			t.Errorf("not registered anew: %v", err)
		}
	}
}

// O7: a client that was bound to the server by hand is bound to the first authorization
// server that it was shown to, even if no token came of it, and in the next process.
func TestAClientIsBoundToTheFirstIssuerThatItWasShownTo(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	store := new(oauth.MemoryStore)
	inANewProcess := func() error {
		c := w.client()
		c.Store = store
		c.Registrations = []oauth.Registration{{Server: w.url(), ClientID: "ours", ClientSecret: secret + "ours"}}
		_, err := w.dial(c, "")
		return err
	}
	w.onToken = func(_ url.Values, answer map[string]any) { answer["error"] = "server_error" }
	if err := inANewProcess(); err == nil || w.count("as POST /token") == 0 {
		t.Fatalf("the first attempt: %v", err)
	}
	w.prm = func(m map[string]any) { m["authorization_servers"] = []string{other.as.URL} }
	err := inANewProcess()
	if !errors.Is(err, oauth.ErrIssuerChanged) || other.count("as POST /token") > 0 || other.count("as GET /authorize") > 0 {
		t.Errorf("the second one, to another issuer: %v", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.egress = slices.DeleteFunc(w.egress, func(a string) bool { return "http://"+a == other.as.URL })
}
