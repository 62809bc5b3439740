package browser_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/auth/oauth/browser"
	"github.com/parley-mcp/parley/auth/oauth/internal/authresponse"
	"github.com/parley-mcp/parley/internal/httpurl"
	"github.com/parley-mcp/parley/internal/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// userAgent is a browser with a cookie jar that follows no redirects.
type userAgent struct {
	t *testing.T
	c http.Client
}

func newUserAgent(t *testing.T) *userAgent {
	jar := must.Get(cookiejar.New(nil))(t)
	return &userAgent{t, http.Client{
		Jar: jar, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// get requests a URL, with the Host header host if it is not empty.
func (b *userAgent) get(to string, host string) (status int, body, location string) {
	b.t.Helper()
	req := must.Get(http.NewRequest(http.MethodGet, to, nil))(b.t)
	if host != "" {
		req.Host = host
	}
	resp := must.Get(b.c.Do(req))(b.t)
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), resp.Header.Get("Location")
}

// begin begins a login that ends with the test.
func begin(t *testing.T, l *browser.Loopback, registered string) oauth.Flow {
	t.Helper()
	f := must.Get(l.Begin(t.Context(), registered))(t)
	t.Cleanup(func() { f.Close() })
	return f
}

const authorizationPage = "https://as.example/authorize?state=the-state"

// The page names the outcome, and never the parameters of the response.
func TestLoopbackShowsTheOutcome(t *testing.T) {
	for query, want := range map[string]string{
		"?code=right&state=the-state": "Login complete",
		"?error=access_denied&error_description=the+user+says+no&state=the-state": "Login failed",
	} {
		l := &browser.Loopback{}
		var redirect string
		l.Open = func(_ context.Context, start string) error {
			b := newUserAgent(t)
			b.get(start, "")
			status, body, _ := b.get(redirect+query, "")
			must.CheckThat(t, status == http.StatusOK && strings.Contains(body, want) &&
				!strings.Contains(body, "access_denied") && !strings.Contains(body, "says no"),
				"%s: status %d, page %s", query, status, body)
			return nil
		}
		flow := begin(t, l, "")
		redirect = flow.RedirectURI()
		must.Check(t, must.Err(flow.Authorize(t.Context(), authorizationPage)))
		must.Check(t, flow.Close())
	}
}

// Rules O8, O9: the listener is on 127.0.0.1 only. It accepts the matching redirect once, and
// rejects all other requests.
func TestLoopbackAcceptsOneRedirect(t *testing.T) {
	l := &browser.Loopback{}
	var redirect string
	l.Open = func(_ context.Context, start string) error {
		b := newUserAgent(t)
		if status, _, _ := b.get(start, "evil.example"); status != http.StatusNotFound {
			t.Errorf("start page with another Host: status %d", status)
		}
		if status, _, to := b.get(start, ""); status != http.StatusSeeOther || to != authorizationPage {
			t.Errorf("start page: status %d, Location %q", status, to)
		}
		for name, bad := range map[string]string{
			"another state": "?code=x&state=other", "no state": "?code=x",
			"two states": "?code=x&state=other&state=the-state", "another path": "x?code=x&state=the-state",
		} {
			status, _, _ := b.get(redirect+bad, "")
			must.CheckThat(t, status >= 400, "%s: status %d", name, status)
		}
		if status, _, _ := b.get(redirect+"?code=x&state=the-state", "evil.example"); status != http.StatusNotFound {
			t.Errorf("redirect with another Host: status %d", status)
		}
		status, body, _ := b.get(redirect+"?code=right&state=the-state&x=<script>", "")
		must.CheckThat(t, status == http.StatusOK && !strings.Contains(body, "script") &&
			!strings.Contains(body, "right"), "status %d, page %s", status, body)
		if status, _, _ := b.get(redirect+"?code=again&state=the-state", ""); status != http.StatusBadRequest {
			t.Errorf("second redirect: status %d", status)
		}
		if status, _, _ := b.get(start, ""); status != http.StatusNotFound {
			t.Errorf("start page after the redirect: status %d", status)
		}
		return nil
	}
	f := begin(t, l, "")
	redirect = f.RedirectURI()
	must.That(t, strings.HasPrefix(redirect, "http://127.0.0.1:"), "%v", redirect)
	must.Contains(t, must.Get(f.Authorize(t.Context(), authorizationPage))(t), "code=right")
	must.Do(t, f.Close())
	again := must.Get(l.Begin(t.Context(), redirect))(t)
	must.Equal(t, again.RedirectURI(), redirect)
	again.Close()
}

// Rule O8: only the browser that opened the start page first can complete the login, and the page works for no other
// browser.
func TestRedirectFromAnotherBrowserIsRejected(t *testing.T) {
	l := &browser.Loopback{}
	var redirect string
	l.Open = func(_ context.Context, start string) error {
		stolen := redirect + "?code=stolen&state=the-state"
		user, later, other := newUserAgent(t), newUserAgent(t), newUserAgent(t)
		status, _, _ := user.get(stolen, "")
		must.CheckThat(t, status == http.StatusBadRequest, "before the start page: status %d", status)
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, start, nil)
		request.Header.Set("Sec-Purpose", "prefetch")
		resp, err := http.DefaultTransport.RoundTrip(request)
		must.CheckThat(t, err == nil && resp.StatusCode == http.StatusNotFound && resp.Body.Close() == nil,
			"a prefetch: %v, %v", resp, err)
		for range 2 {
			status, _, location := user.get(start, "")
			must.CheckThat(t, status == http.StatusSeeOther && location == authorizationPage,
				"the start page: status %d, location %s", status, location)
		}
		status, body, location := later.get(start, "")
		must.CheckThat(t, status == http.StatusForbidden && location == "" && strings.Contains(body, "first browser"),
			"the start page in another browser: status %d, location %s, %s", status, location, body)
		for name, b := range map[string]*userAgent{"without the start page": other,
			"with the start page after another": later} {
			status, body, _ := b.get(stolen, "")
			must.CheckEqual(t, status, http.StatusBadRequest, name)
			must.CheckContains(t, body, "not started in this browser", name)
		}
		status, _, _ = user.get(redirect+"?code=mine&state=the-state", "")
		must.CheckThat(t, status == http.StatusOK, "the user's browser: status %d", status)
		return nil
	}
	f := begin(t, l, "")
	redirect = f.RedirectURI()
	must.CheckContains(t, must.Get(f.Authorize(t.Context(), authorizationPage))(t), "code=mine")
}

func TestPasteReturnsTheRedirect(t *testing.T) {
	pastes := []string{"not a redirect", "http://127.0.0.1:1/callback?code=x&state=other",
		"http://127.0.0.1:1/callback?code=mine&state=the-state"}
	calls := 0
	l := &browser.Loopback{Open: browser.ShowURL(io.Discard), Paste: func(_ context.Context, to string) (string, error) {
		must.CheckEqual(t, to, authorizationPage)
		calls++
		return pastes[calls-1], nil
	}}
	f := begin(t, l, "")
	got := must.Get(f.Authorize(t.Context(), authorizationPage))(t)
	must.CheckThat(t, got == pastes[2] && calls == 3, "%q, after %d calls", got, calls)
}

var errGivenUp = errors.New("the user has given up")

func TestPasteEndsWithTheFlow(t *testing.T) {
	var redirect string
	opened := make(chan struct{})
	l := &browser.Loopback{Open: func(_ context.Context, start string) error {
		go func() {
			defer close(opened)
			b := newUserAgent(t)
			b.get(start, "")
			b.get(redirect+"?code=mine&state=the-state", "")
		}()
		return nil
	}, Paste: func(ctx context.Context, _ string) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}}
	f := begin(t, l, "")
	redirect = f.RedirectURI()
	must.CheckContains(t, must.Get(f.Authorize(t.Context(), authorizationPage))(t), "code=mine")
	<-opened
	f.Close()

	for _, pasteErr := range []error{errGivenUp, nil} {
		l = &browser.Loopback{Open: browser.ShowURL(io.Discard),
			Paste: func(context.Context, string) (string, error) { return "nonsense", pasteErr }}
		f = begin(t, l, "")
		want := pasteErr
		if want == nil {
			want = authresponse.ErrState // after five calls
		}
		must.CheckIs(t, must.Err(f.Authorize(t.Context(), authorizationPage)), want)
		f.Close()
	}
}

func TestLoopbackTimesOut(t *testing.T) {
	var shown strings.Builder
	l := &browser.Loopback{Open: browser.ShowURL(&shown), Timeout: time.Millisecond}
	f := begin(t, l, "")
	must.Is(t, must.Err(f.Authorize(t.Context(), "https://as.example/?state=x")), oauth.ErrInteraction)
	must.That(t, strings.Contains(shown.String(), "http://127.0.0.1:") && !strings.Contains(shown.String(), "state"),
		"%v", shown.String())
}

// A client that is registered by hand has a redirect URI with an exact host, port and path.
func TestLoopbackListensAtTheRegisteredRedirectURI(t *testing.T) {
	free := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	_, port, _ := net.SplitHostPort(free.Addr().String())
	free.Close()
	for _, test := range []struct{ configured, registered, want string }{
		{"http://localhost:" + port + "/a/b", "", "http://localhost:" + port + "/a/b"},
		{"http://127.0.0.1:" + port, "http://localhost:1/x", "http://127.0.0.1:" + port},
		{"", "http://localhost:" + port + "/x/y", "http://localhost:" + port + "/x/y"},
		{"http://localhost/x", "http://localhost:" + port + "/x", "http://localhost:" + port + "/x"},
		{"", "https://example.com/x", "http://127.0.0.1:*/callback"},
		{"http://localhost/x", "", "http://localhost:*/x"},
	} {
		var start string
		l := &browser.Loopback{RedirectURI: test.configured, Open: func(_ context.Context, to string) error {
			start = to
			return errors.New("no browser")
		}}
		flow := begin(t, l, test.registered)
		_, err := flow.Authorize(t.Context(), authorizationPage)
		must.That(t, err != nil, "no error")
		got, _ := url.Parse(flow.RedirectURI())
		must.CheckEqual(t, got.String(), strings.ReplaceAll(test.want, "*", got.Port()), test, got)
		must.CheckThat(t, strings.HasPrefix(start, "http://"+got.Host+"/"),
			"the cookies of %s do not reach %s", start, got)
		b := newUserAgent(t)
		b.get(start, "")
		status, _, _ := b.get(flow.RedirectURI()+"?code=right&state=the-state", "")
		must.CheckThat(t, status == http.StatusOK, "%s: status %d", got, status)
		flow.Close()
	}
}

func TestLoopbackListensOnTheLoopbackInterfaceOnly(t *testing.T) {
	for _, uri := range []string{"http://example.com/callback", "https://localhost/callback", "http://0.0.0.0:3118/",
		"http://[::]/x", "localhost:3118", "http://localhost/?x=y", "http://localhost/login/x", "http://u@localhost/"} {
		must.CheckIs(t, must.Err((&browser.Loopback{RedirectURI: uri}).Begin(t.Context(), "")), httpurl.ErrInsecure, uri)
	}
}

// The browser may connect to either address of localhost.
func TestLoopbackSharesNoPortOfLocalhost(t *testing.T) {
	other, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		return // no IPv6
	}
	defer other.Close()
	_, port, _ := net.SplitHostPort(other.Addr().String())
	must.CheckIs(t, must.Err((&browser.Loopback{RedirectURI: "http://localhost:" + port + "/callback"}).Begin(t.Context(),
		"")), oauth.ErrInteraction)
}
