package oauth_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/auth/oauth"
)

// Users see the logins that are kept for them, and end them. The pages reach two replicas in turn.
func TestUsersEndTheirLogins(t *testing.T) {
	b := newBrokers(t)
	index, end := b.front.URL+"/login/", b.front.URL+"/login/end/one"
	ada, bob := b.browser("ada"), b.browser("bob")
	if body := ada.signIn(index); !strings.Contains(body, "<b>ada</b>") || !strings.Contains(body, "keeps no logins") {
		t.Errorf("before the login: %s", body)
	}
	for name, browser := range map[string]*brokerBrowser{"ada": ada, "bob": bob} {
		start, _ := b.required(b.call(0, name, "one"))
		browser.logIn(start)
		if err := b.call(0, name, "one"); err != nil {
			t.Fatal(err)
		}
	}
	_, body, _ := ada.do(http.MethodGet, index, nil)
	if !strings.Contains(body, `<form method="post" action="`+end+`"><b>one</b>`) || strings.Contains(body, "two") || strings.Contains(body, "bob") {
		t.Errorf("after the login: %s", body)
	}
	for name, change := range map[string]func(*http.Request){
		"cross-site form": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"same-site form":  func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
	} {
		if status, _, _ := ada.do(http.MethodPost, end, change); status != http.StatusBadRequest {
			t.Errorf("%s: status %d", name, status)
		}
	}
	if status, _, _ := ada.do(http.MethodGet, end, nil); status != http.StatusMethodNotAllowed {
		t.Errorf("a link ends a login: status %d", status)
	}
	if status, _, location := b.browser("ada").do(http.MethodPost, end, nil); status != http.StatusSeeOther || location != index { // no user
		t.Errorf("a browser without a user: %d %s", status, location)
	}
	if err := b.call(0, "ada", "one"); err != nil {
		t.Errorf("the login has ended too early: %v", err)
	}
	for range 2 { // at both replicas
		if status, _, location := ada.do(http.MethodPost, end, nil); status != http.StatusSeeOther || location != index {
			t.Errorf("status %d %s", status, location)
		}
	}
	if _, body, _ := ada.do(http.MethodGet, index, nil); !strings.Contains(body, "keeps no logins") {
		t.Errorf("after the end: %s", body)
	}
	for replica := range b.all {
		if err := b.call(replica, "ada", "one"); !errors.Is(err, oauth.ErrInteraction) {
			t.Errorf("replica %d calls after the end: %v", replica, err)
		}
		if err := b.call(replica, "bob", "one"); err != nil {
			t.Errorf("the login of bob has ended, too: %v", err)
		}
	}
	start, _ := b.required(b.call(0, "ada", "one"))
	ada.logIn(start)
	if err := b.call(0, "ada", "one"); err != nil {
		t.Errorf("after another login: %v", err)
	}
}
