package oauth_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth/oauth"
)

// browser is one profile of a browser, which keeps its cookies and follows no redirect.
type browser struct {
	t *testing.T
	c http.Client
}

func newBrowser(t *testing.T) *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{t, http.Client{
		Jar: jar, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// get opens an address, under another name of its host if there is one.
func (b *browser) get(to string, host string) (status int, body, location string) {
	b.t.Helper()
	req, err := http.NewRequest(http.MethodGet, to, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	if host != "" {
		req.Host = host
	}
	resp, err := b.c.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), resp.Header.Get("Location")
}

const stateful = "https://as.example/authorize?state=the-state"

// O8, O9: the listener is on this machine alone, and takes the one answer that belongs
// to the request, whatever else comes by.
func TestO9TheListenerTakesItsAnswerOnce(t *testing.T) {
	l := &oauth.Loopback{}
	var redirect string
	l.Open = func(_ context.Context, start string) error {
		b := newBrowser(t)
		if status, _, _ := b.get(start, "evil.example"); status != http.StatusNotFound {
			t.Errorf("the start by another name: status %d", status)
		}
		if status, _, to := b.get(start, ""); status != http.StatusSeeOther || to != stateful {
			t.Errorf("the browser begins with status %d at %q", status, to)
		}
		for what, bad := range map[string]string{
			"another state": "?code=x&state=other", "no state": "?code=x", "two states": "?code=x&state=other&state=the-state", "another path": "x?code=x&state=the-state",
		} {
			if status, _, _ := b.get(redirect+bad, ""); status < 400 {
				t.Errorf("%s: status %d", what, status)
			}
		}
		if status, _, _ := b.get(redirect+"?code=x&state=the-state", "evil.example"); status != http.StatusNotFound {
			t.Errorf("by another name: status %d", status)
		}
		status, body, _ := b.get(redirect+"?code=right&state=the-state&x=<script>", "")
		if status != http.StatusOK || strings.Contains(body, "script") || strings.Contains(body, "right") {
			t.Errorf("status %d, page %s", status, body)
		}
		if status, _, _ := b.get(redirect+"?code=again&state=the-state", ""); status != http.StatusBadRequest {
			t.Errorf("a second time: status %d", status)
		}
		if status, _, _ := b.get(start, ""); status != http.StatusNotFound {
			t.Errorf("the start after the end: status %d", status)
		}
		return nil
	}
	v, err := l.Begin(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	redirect = v.RedirectURI()
	if !strings.HasPrefix(redirect, "http://127.0.0.1:") {
		t.Fatal(redirect)
	}
	callback, err := v.Authorize(t.Context(), stateful)
	if err != nil || !strings.Contains(callback, "code=right") {
		t.Fatalf("%q, %v", callback, err)
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := l.Begin(t.Context(), redirect)
	if err != nil || again.RedirectURI() != redirect {
		t.Fatalf("the port of before is not taken again: %v", err)
	}
	again.Close()
}

// O8: an answer is the user's only in the browser that the user has begun in.
func TestO8AnAnswerFromAnotherBrowserDoesNotEndTheLogin(t *testing.T) {
	l := &oauth.Loopback{}
	var redirect string
	l.Open = func(_ context.Context, start string) error {
		answer := redirect + "?code=stolen&state=the-state"
		before, user, other := newBrowser(t), newBrowser(t), newBrowser(t)
		if status, _, _ := user.get(answer, ""); status != http.StatusBadRequest {
			t.Errorf("before the login was begun: status %d", status)
		}
		before.get(start, "")
		user.get(start, "")
		for name, b := range map[string]*browser{"that has not begun": other, "whose place another has taken": before} {
			status, body, _ := b.get(answer, "")
			if status != http.StatusBadRequest || !strings.Contains(body, "not started in this browser") {
				t.Errorf("a browser %s: status %d, %s", name, status, body)
			}
		}
		if status, _, _ := user.get(redirect+"?code=mine&state=the-state", ""); status != http.StatusOK {
			t.Errorf("the user's browser: status %d", status)
		}
		return nil
	}
	v, err := l.Begin(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	redirect = v.RedirectURI()
	if callback, err := v.Authorize(t.Context(), stateful); err != nil || !strings.Contains(callback, "code=mine") {
		t.Errorf("%q, %v", callback, err)
	}
}

func TestAUserPastesWhereTheirBrowserHasEnded(t *testing.T) {
	pastes := []string{"what is this", "http://127.0.0.1:1/callback?code=x&state=other", "http://127.0.0.1:1/callback?code=mine&state=the-state"}
	asked := 0
	l := &oauth.Loopback{Open: oauth.ShowURL(io.Discard), Paste: func(_ context.Context, to string) (string, error) {
		if to != stateful {
			t.Errorf("the user is shown %q", to)
		}
		asked++
		return pastes[asked-1], nil
	}}
	v, err := l.Begin(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if callback, err := v.Authorize(t.Context(), stateful); err != nil || callback != pastes[2] || asked != 3 {
		t.Errorf("%q, %v after %d", callback, err, asked)
	}
}

func TestPastingEndsWhenTheBrowserComesBackOrTheUserHasEnough(t *testing.T) {
	var redirect string
	opened := make(chan struct{})
	l := &oauth.Loopback{Open: func(_ context.Context, start string) error {
		go func() {
			defer close(opened)
			b := newBrowser(t)
			b.get(start, "")
			b.get(redirect+"?code=mine&state=the-state", "")
		}()
		return nil
	}, Paste: func(ctx context.Context, _ string) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}}
	v, err := l.Begin(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	redirect = v.RedirectURI()
	if callback, err := v.Authorize(t.Context(), stateful); err != nil || !strings.Contains(callback, "code=mine") {
		t.Errorf("%q, %v", callback, err)
	}
	<-opened
	v.Close()

	for _, enough := range []error{oauth.ErrDeclined, nil} {
		l = &oauth.Loopback{Open: oauth.ShowURL(io.Discard), Paste: func(context.Context, string) (string, error) { return "nonsense", enough }}
		if v, err = l.Begin(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		want := enough
		if want == nil {
			want = oauth.ErrState // nonsense, again and again
		}
		if _, err := v.Authorize(t.Context(), stateful); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
		v.Close()
	}
}

func TestAUserWhoStaysAwayIsNotWaitedForForEver(t *testing.T) {
	var shown strings.Builder
	l := &oauth.Loopback{Open: oauth.ShowURL(&shown), Timeout: time.Millisecond}
	v, err := l.Begin(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if _, err := v.Authorize(t.Context(), "https://as.example/?state=x"); !errors.Is(err, oauth.ErrInteraction) {
		t.Fatal(err)
	}
	if !strings.Contains(shown.String(), "http://127.0.0.1:") || strings.Contains(shown.String(), "state") {
		t.Fatal(shown.String())
	}
}

func TestALoginThroughTheLoopbackListener(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	c.Interaction = &oauth.Loopback{Open: func(ctx context.Context, start string) error {
		b := newBrowser(t)
		_, _, to := b.get(start, "")
		back, err := visit(ctx, to)
		if err == nil {
			b.get(back, "")
		}
		return err
	}}
	if _, err := w.dial(c, ""); err != nil {
		t.Fatal(err)
	}
}
