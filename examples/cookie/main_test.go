package main

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/replicatest"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// login sends the form of the login page.
func login(a *application, user, password string) *http.Response {
	form := url.Values{"user": {user}, "password": {password}}
	r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	a.logIn(w, r)
	return w.Result()
}

// Nothing of one user exists for another user.
func TestUsersCannotUseWhatOthersHave(t *testing.T) {
	app := newApplication("ada=" + auth.HashKey("ada's") + " bob=" + auth.HashKey("bob's"))
	cookies := make(map[string][]string)
	for _, user := range []string{"ada", "bob"} {
		session := login(app, user, user+"'s").Cookies()[0]
		cookies[user] = []string{"Cookie", "session=" + session.Value}
	}
	for user, password := range map[string]string{"ada": "bob's", "mallory": "", "": ""} {
		if got := login(app, user, password); got.StatusCode != http.StatusUnauthorized || len(got.Cookies()) > 0 {
			t.Errorf("%q logs in: %s", user, got.Status)
		}
	}
	app.sessions.Store(auth.HashKey("old"), expired(app))
	id := strings.TrimPrefix(cookies["ada"][1], "session=")
	memory := store.NewMemory()
	replicatest.Principals(t, memory, memory, replicatest.Door{
		Protect: func(s *server.Server) http.Handler { return app.authenticate(s) },
		Headers: func(user string) []string { return cookies[user] },
		Strangers: map[string][]string{
			"nobody": nil, "empty": {"Cookie", "session="}, "made up": {"Cookie", "session=" + id[1:] + "A"},
			"stored digest": {"Cookie", "session=" + auth.HashKey(id)}, "ended": {"Cookie", "session=old"},
			"another cookie": {"Cookie", "sessions=" + id}, "header": {"Session", id},
		},
	})
}

// expired returns a session that has ended.
func expired(a *application) (info *auth.Info) {
	a.sessions.Range(func(_, session any) bool {
		old := *session.(*auth.Info)
		old.Expiry = time.Now().Add(-time.Second)
		info = &old
		return false
	})
	return info
}

// A page of another site uses the cookie of a browser that does not know SameSite.
func TestPagesOfOtherSitesAreRejected(t *testing.T) {
	app := newApplication("ada=" + auth.HashKey("ada's"))
	session := login(app, "ada", "ada's").Cookies()[0]
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/mcp", strings.NewReader("{}"))
	r.Header.Set("Cookie", "session="+session.Value)
	r.Header.Set("Origin", "https://evil.example")
	w := httptest.NewRecorder()
	app.authenticate(&server.Server{}).ServeHTTP(w, r)
	must.CheckEqual(t, w.Code, http.StatusForbidden)
}
