package oauth_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/parley-mcp/parley/auth/oauth"
)

// echoes returns texts that a server may make of a request.
func echoes(r *http.Request, body string) map[string]string {
	form, _ := url.ParseQuery(body)
	var values []string
	for _, v := range form {
		values = append(values, v...)
	}
	id, password, _ := r.BasicAuth()
	values = append(values, id, password)
	all := map[string]string{"body": body, "values": fmt.Sprint(values, r.URL, r.Header), "lower case": strings.ToLower(body)}
	for _, v := range values {
		all["shortened values"] += " " + v[:min(len(v), 12)] + "… " + v[min(len(v), 9):]
	}
	for i, v := range values {
		values[i] = base64.StdEncoding.EncodeToString([]byte(v)) + " " + base64.RawURLEncoding.EncodeToString([]byte(v)) + " " + url.PathEscape(v)
	}
	all["encoded values"] = strings.Join(values, " ")
	all["divided values"] = strings.ReplaceAll(all["values"], "3cr", "3\u200bc\nr")
	return all
}

// Rule R6: no error and no log message contains a secret, whatever the authorization server does
// with it.
func TestErrorsHaveNoSecretsOfTheRequest(t *testing.T) {
	respond := map[string]func(w *environment, rw http.ResponseWriter, echo string){
		"error_description": func(w *environment, rw http.ResponseWriter, echo string) {
			w.json(rw, http.StatusBadRequest, map[string]any{"error": "invalid_request", "error_description": echo})
		},
		"error": func(w *environment, rw http.ResponseWriter, echo string) {
			w.json(rw, http.StatusUnauthorized, map[string]any{"error": echo})
		},
		"text": func(w *environment, rw http.ResponseWriter, echo string) {
			http.Error(rw, echo, http.StatusInternalServerError)
		},
		"JSON with status 200": func(w *environment, rw http.ResponseWriter, echo string) {
			w.json(rw, http.StatusOK, map[string]any{"access_token": 7, "token_type": echo, "echo": echo})
		},
		"token_type": func(w *environment, rw http.ResponseWriter, echo string) {
			w.json(rw, http.StatusOK, map[string]any{"access_token": secret + "new", "token_type": secret + "new", "refresh_token": secret + "next"})
		},
		"invalid token": func(w *environment, rw http.ResponseWriter, echo string) {
			w.json(rw, http.StatusOK, map[string]any{"access_token": secret + "\n", "token_type": "Bearer"})
		},
		"not JSON": func(w *environment, rw http.ResponseWriter, echo string) { _, _ = io.WriteString(rw, `{"`+echo) },
		"duplicate": func(w *environment, rw http.ResponseWriter, echo string) {
			fmt.Fprintf(rw, `{"error":%q,"error":%[1]q,"access_token":%[1]q,"access_token":%[1]q}`, echo)
		},
		"redirect": func(w *environment, rw http.ResponseWriter, echo string) {
			rw.Header().Set("Location", "http://"+secret+"user@%zz/?"+echo)
			rw.WriteHeader(http.StatusTemporaryRedirect)
		},
		"malformed response": func(w *environment, rw http.ResponseWriter, echo string) {
			conn, out, err := rw.(http.Hijacker).Hijack()
			if err != nil {
				w.t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprintf(out, "HTTP/1.1 %s\r\n\r\n", strings.ReplaceAll(echo, "\n", ""))
			out.Flush()
		},
		"cut": func(w *environment, rw http.ResponseWriter, echo string) { panic(http.ErrAbortHandler) },
	}
	for name, f := range respond {
		repeated := []string{"values"}
		if name == "error_description" {
			repeated = append(repeated, "body", "encoded values", "divided values", "shortened values", "lower case")
		}
		for _, echo := range repeated {
			for _, method := range []string{"client_secret_basic", "client_secret_post"} {
				t.Run(name+"/"+echo+"/"+method, func(t *testing.T) {
					w := newEnvironment(t)
					w.as.Config.ErrorLog = nil
					c := w.client()
					steps := trace(c)
					c.Registrations = []oauth.Registration{{Issuer: w.as.URL, ClientID: "client", ClientSecret: secret + "a+b/c d=%", Method: method}}
					var mu sync.Mutex
					var sent []string // secrets without the prefix
					w.serveAS = func(rw http.ResponseWriter, r *http.Request) bool {
						if r.URL.Path != "/token" {
							return false
						}
						body, _ := io.ReadAll(r.Body)
						form, _ := url.ParseQuery(string(body))
						mu.Lock()
						sent = append(sent, form.Get("code_verifier"))
						mu.Unlock()
						f(w, rw, echoes(r, string(body))[echo])
						return true
					}
					_, err := w.dial(c, "")
					mu.Lock()
					defer mu.Unlock()
					if err == nil || len(sent) == 0 {
						t.Fatalf("%v after %d requests", err, len(sent))
					}
					text := err.Error() + fmt.Sprint(*steps)
					for _, s := range append(sent, secret, secret+"a", "a+b/c", "a%2Bb", base64.StdEncoding.EncodeToString([]byte(secret))[:9]) {
						if strings.Contains(text, s) {
							t.Errorf("the error or the trace contains %q: %s", s, text)
						}
					}
				})
			}
		}
	}
}

// Rule R6: the same for the authorization endpoint, whose response comes with a redirect.
func TestErrorsHaveNoSecretsOfTheAuthorizationRequest(t *testing.T) {
	for name, change := range map[string]func(q, redirect url.Values){
		"error_description": func(q, redirect url.Values) {
			redirect.Set("error", "access_denied")
			redirect.Set("error_description", "you sent "+q.Get("state")+" "+q.Encode())
		},
		"error":       func(q, redirect url.Values) { redirect.Set("error", q.Get("state")) },
		"wrong state": func(q, redirect url.Values) { redirect.Set("state", secret+"state") },
		"wrong iss":   func(q, redirect url.Values) { redirect.Set("iss", "https://"+secret+"@example.com/") },
		"repeated":    func(q, redirect url.Values) { redirect.Add("code", secret+"second") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnvironment(t)
			var state string
			w.onAuthorize = func(q, redirect url.Values) {
				state = q.Get("state")
				change(q, redirect)
			}
			c := w.client()
			steps := trace(c)
			_, err := w.dial(c, "")
			if err == nil || state == "" {
				t.Fatalf("%v", err)
			}
			if text := err.Error() + fmt.Sprint(*steps); strings.Contains(text, state) || strings.Contains(text, secret) {
				t.Errorf("the error or the trace contains a secret: %s", text)
			}
		})
	}
}

// Rule R6: the proxy's user information is a secret.
func TestErrorsHaveNoSecretsOfTheProxy(t *testing.T) {
	for _, proxy := range []string{"http://" + secret + "user:" + secret + "password@127.0.0.1:1", "socks5://" + secret + "user:" + secret + "@127.0.0.1:1"} {
		w := newEnvironment(t)
		c := &oauth.Client{Interaction: w.user()}
		proxyURL, err := url.Parse(proxy)
		if err != nil {
			t.Fatal(err)
		}
		c.Proxy = http.ProxyURL(proxyURL)
		err = c.Login(context.Background(), w.url())
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", proxy, err)
		}
	}
}
