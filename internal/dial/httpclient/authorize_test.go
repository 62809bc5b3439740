package httpclient

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parley-mcp/parley/call"
)

// passport is an Authorizer that returns one token after the other.
type passport struct {
	mu   sync.Mutex
	good int
	err  error
}

func (p *passport) Authorize(req *http.Request, _ string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.good > 0 {
		req.Header.Set("Authorization", "Bearer "+strings.Repeat("x", p.good))
	}
	return nil
}

func (p *passport) Reauthorize(req *http.Request, _ string, _ *http.Response) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.good++
	return p.err == nil, p.err
}

func authorizing(url string, p *passport) *http.Client {
	o := Options{URL: url, Auth: p}
	c := o.newHTTP()
	c.Transport = &http.Transport{DisableKeepAlives: true}
	o.authorize(c, nil)
	return c
}

// Rule U7: a rejected request is sent again with its body and other credentials, a limited
// number of times. DELETE is not sent again.
func TestRejectedRequestIsSentAgain(t *testing.T) {
	for _, tc := range []struct {
		method string
		wants  string // the valid token
		sent   int
		status int
	}{
		{http.MethodPost, "Bearer xx", 3, 200},
		{http.MethodGet, "Bearer x", 2, 200},
		{http.MethodPost, "never", 1 + maxReauthorizations, 401},
		{http.MethodDelete, "Bearer x", 1, 401},
	} {
		sent := 0
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			sent++
			body := make([]byte, 10)
			if n, _ := r.Body.Read(body); string(body[:n]) != "body" && r.Method == http.MethodPost {
				t.Errorf("attempt %d has the body %q", sent, body[:n])
			}
			if r.Header.Get("Authorization") != tc.wants {
				w.WriteHeader(http.StatusUnauthorized)
			}
		}))
		defer s.Close()
		c := authorizing(s.URL, &passport{})
		req, _ := http.NewRequest(tc.method, s.URL, nil)
		if tc.method == http.MethodPost {
			req, _ = http.NewRequest(tc.method, s.URL, strings.NewReader("body"))
		}
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if sent != tc.sent || resp.StatusCode != tc.status {
			t.Errorf("%s wants %s: sent %d times, status %d", tc.method, tc.wants, sent, resp.StatusCode)
		}
		if req.Header.Get("Authorization") != "" {
			t.Error("the caller's request was changed")
		}
	}
}

// Rule U8: a redirected request to another origin has no credentials.
func TestCredentialsDoNotFollowRedirects(t *testing.T) {
	var got []string
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization"))
	}))
	defer elsewhere.Close()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	}))
	defer s.Close()
	c := authorizing(s.URL, &passport{good: 1})
	c.CheckRedirect = nil // even if redirects were followed
	resp, err := c.Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if !slices.Equal(got, []string{""}) {
		t.Errorf("the other origin received %q", got)
	}
}

func TestFailedAuthorizationIsErrUnauthorized(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer s.Close()
	declined := errors.New("declined")
	_, err := authorizing(s.URL, &passport{err: declined}).Get(s.URL)
	err = sendError(t.Context(), err)
	if !errors.Is(err, call.ErrUnauthorized) || !errors.Is(err, declined) || errors.Is(err, call.ErrConnectionLost) {
		t.Fatal(err)
	}
}
