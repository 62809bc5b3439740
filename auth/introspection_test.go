package auth_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth"
)

// introspector is an endpoint that answers for each token with a document.
type introspector struct {
	*httptest.Server
	asked atomic.Int32
}

func newIntrospector(t *testing.T, documents map[string]object) *introspector {
	i := &introspector{}
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.asked.Add(1)
		id, secret, _ := r.BasicAuth()
		if r.Method != http.MethodPost || id != "mcp%3Aserver" || secret != "s%26cret" || r.URL.RawQuery != "" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		document := documents[r.PostFormValue("token")]
		if document == nil {
			document = object{"active": false}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(document)
	}))
	t.Cleanup(i.Close)
	return i
}

func (i *introspector) verifier(now *time.Time) *auth.Introspection {
	return &auth.Introspection{
		Endpoint: i.URL, Issuer: "https://as.example.com", ClientID: "mcp:server", ClientSecret: "s&cret",
		Now: func() time.Time { return *now },
	}
}

// R2: a token is what its issuer says of it.
func TestIntrospectionAsksTheIssuer(t *testing.T) {
	now := time.Now()
	active := object{"active": true, "sub": "ada", "client_id": "editor", "aud": self, "scope": "a b", "exp": now.Add(time.Hour).Unix(), "extra": 1}
	i := newIntrospector(t, map[string]object{
		"good":         active,
		"machine":      with(active, object{"sub": nil}),
		"ours":         with(active, object{"iss": "https://as.example.com"}),
		"theirs":       with(active, object{"iss": "https://evil.example"}),
		"inactive":     with(active, object{"active": false}),
		"unsaid":       with(active, object{"active": nil}),
		"almost":       with(active, object{"active": "true"}),
		"expired":      with(active, object{"exp": now.Add(-time.Second).Unix()}),
		"of nobody":    with(active, object{"sub": nil, "client_id": nil}),
		"a number":     with(active, object{"sub": 1}),
		"certificated": with(active, object{"cnf": object{"x5t#S256": "x"}}),
	})
	v := i.verifier(&now)
	info, err := v.Verify(t.Context(), "good")
	if err != nil || info.Principal.Subject() != "ada" || info.Principal.Issuer() != "https://as.example.com" || strings.Join(info.Scopes, " ") != "a b" || info.Audience[0] != self {
		t.Fatalf("%v, %v", info, err)
	}
	if extra, _ := info.Claim("extra"); string(extra) != "1" {
		t.Errorf("extra: %s", extra)
	}
	if info, err := v.Verify(t.Context(), "machine"); err != nil || info.Principal.Subject() != "editor" {
		t.Errorf("a client by itself: %v, %v", info, err)
	}
	if _, err := v.Verify(t.Context(), "ours"); err != nil {
		t.Error(err)
	}
	for _, token := range []string{"theirs", "inactive", "unsaid", "almost", "expired", "of nobody", "a number", "certificated", "unknown"} {
		var not *auth.InvalidTokenError
		if info, err := v.Verify(t.Context(), token); !errors.As(err, &not) {
			t.Errorf("%s: %v, %v", token, info, err)
		}
	}
}

func TestIntrospectionIsRememberedForALittle(t *testing.T) {
	now := time.Now()
	i := newIntrospector(t, map[string]object{
		"good":  {"active": true, "sub": "ada"},
		"brief": {"active": true, "sub": "ada", "exp": now.Add(5 * time.Second).Unix()},
	})
	v := i.verifier(&now)
	ask := func(token string, want int32, after time.Duration) {
		t.Helper()
		now = now.Add(after)
		before := i.asked.Load()
		_, _ = v.Verify(t.Context(), token)
		if n := i.asked.Load() - before; n != want {
			t.Errorf("%s was asked about %d times, want %d", token, n, want)
		}
	}
	ask("good", 1, 0)
	ask("good", 0, 14*time.Second)
	ask("good", 1, 2*time.Second)
	ask("bad", 1, 0)
	ask("bad", 0, time.Second)
	now = now.Add(-17 * time.Second)
	ask("brief", 1, 0)
	ask("brief", 0, 4*time.Second)
	ask("brief", 1, 2*time.Second)
	v = i.verifier(&now)
	v.CacheFor = -1
	ask("good", 1, 0)
	ask("good", 1, 0)
}

func TestAnIntrospectorThatIsDownIsNoFaultOfTheToken(t *testing.T) {
	now := time.Now()
	i := newIntrospector(t, nil)
	wrong := i.verifier(&now)
	wrong.ClientSecret = "wrong"
	_, err := wrong.Verify(t.Context(), "planted-token")
	if !errors.Is(err, auth.ErrUnavailable) || strings.Contains(err.Error(), "planted") || strings.Contains(err.Error(), "wrong") {
		t.Errorf("with another secret: %v", err)
	}
	for name, answer := range map[string]string{"no JSON": "<html>", "an array": `[]`, "two members": `{"active":true,"active":false}`, "nothing": ""} {
		odd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(answer))
		}))
		v := i.verifier(&now)
		v.Endpoint = odd.URL
		if _, err := v.Verify(t.Context(), "token"); !errors.Is(err, auth.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
		odd.Close()
	}
	for _, v := range []*auth.Introspection{{}, {Endpoint: "http://as.example.com", Issuer: "https://as.example.com"}, {Endpoint: "https://as.example.com"}} {
		if v.Check() == nil {
			t.Errorf("%q of %q is accepted", v.Endpoint, v.Issuer)
		}
	}
}

func TestOnlySoManyTokensAreAskedAboutAtATime(t *testing.T) {
	now := time.Now()
	release := make(chan struct{})
	var waiting atomic.Int32
	full := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if waiting.Add(1) == 64 {
			close(full)
		}
		<-release
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"active":false}`))
	}))
	defer slow.Close()
	v := &auth.Introspection{Endpoint: slow.URL, Issuer: "https://as.example.com", Now: func() time.Time { return now }}
	done := make(chan error)
	for n := range 64 {
		go func() {
			_, err := v.Verify(t.Context(), "t"+strings.Repeat("x", n))
			done <- err
		}()
	}
	<-full
	if _, err := v.Verify(t.Context(), "one more"); !errors.Is(err, auth.ErrUnavailable) {
		t.Errorf("the 65th: %v", err)
	}
	close(release)
	for range 64 {
		<-done
	}
}
