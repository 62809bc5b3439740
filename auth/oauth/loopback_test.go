package oauth_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth/oauth"
)

// get is a browser's visit.
func get(t *testing.T, to string, host string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, to, nil)
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		req.Host = host
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body)
}

// O8, O9: the listener is on this machine alone, and takes the one answer that belongs
// to the request, whatever else comes by.
func TestO9TheListenerTakesItsAnswerOnce(t *testing.T) {
	l := &oauth.Loopback{}
	var redirect string
	l.Open = func(_ context.Context, to string) error {
		u, _ := url.Parse(to)
		state := u.Query().Get("state")
		for what, bad := range map[string]string{
			"another state": "?code=x&state=other", "no state": "?code=x", "two states": "?code=x&state=other&state=" + state, "another path": "x?code=x&state=" + state,
		} {
			if status, _ := get(t, redirect+bad, ""); status < 400 {
				t.Errorf("%s: status %d", what, status)
			}
		}
		if status, _ := get(t, redirect+"?code=x&state="+state, "evil.example"); status != http.StatusNotFound {
			t.Errorf("by another name: status %d", status)
		}
		status, body := get(t, redirect+"?code=right&state="+state+"&x=<script>", "")
		if status != http.StatusOK || strings.Contains(body, "script") || strings.Contains(body, "right") {
			t.Errorf("status %d, page %s", status, body)
		}
		if status, _ := get(t, redirect+"?code=again&state="+state, ""); status != http.StatusBadRequest {
			t.Errorf("a second time: status %d", status)
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
	callback, err := v.Authorize(t.Context(), "https://as.example/authorize?state=the-state")
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
	if !strings.Contains(shown.String(), "https://as.example/?state=x") {
		t.Fatal(shown.String())
	}
}

func TestALoginThroughTheLoopbackListener(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	c.Interaction = &oauth.Loopback{Open: func(ctx context.Context, to string) error {
		back, err := visit(ctx, to)
		if err == nil {
			get(t, back, "")
		}
		return err
	}}
	if _, err := w.dial(c, ""); err != nil {
		t.Fatal(err)
	}
}
