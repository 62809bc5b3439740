// Package logintest complements a development issuer (auth/devissuer) in tests of logins: it simulates a user with a
// browser, and a proxy that makes the issuer behave like other authorization servers.
package logintest

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"

	"github.com/parley-mcp/parley/auth/oauth"
)

// maxPages limits the pages of a login.
const maxPages = 10

// Interaction is an oauth.Interaction without a listener: Open plays the user and the browser.
type Interaction struct {
	RedirectURI string
	// Open opens the page of an authorization server, and returns the URL that the browser is redirected to.
	Open func(ctx context.Context, page string) (redirect string, err error)
}

// Begin implements oauth.Interaction.
func (i *Interaction) Begin(context.Context, string) (oauth.Flow, error) { return flow{i}, nil }

type flow struct{ *Interaction }

func (f flow) RedirectURI() string { return f.Interaction.RedirectURI }

func (f flow) Authorize(ctx context.Context, page string) (string, error) { return f.Open(ctx, page) }

func (f flow) Close() error { return nil }

// Browser is the browser of a user who logs in at development issuers. It keeps cookies. The zero value is a user who
// allows everything. A Browser is not safe for concurrent use.
type Browser struct {
	// User is the user to log in as; empty: the user whom the page proposes.
	User string
	// Accounts contains other names of the user, by the URL of the issuer.
	Accounts map[string]string
	// Deny denies access.
	Deny bool
	// Transport sends the requests; nil: a new connection for each.
	Transport http.RoundTripper

	jar http.CookieJar
}

var (
	proposed = regexp.MustCompile(`<option>([^<]*)</option>|name="user" value="([^"]*)"`)
	// button matches a form that consists of a button only. Its action is a URL.
	button = regexp.MustCompile(`<form method="post" action="(https?://[^"]+)">\s*<button>`)
	anyTag = regexp.MustCompile(`(?s)<style>.*?</style>|<[^>]*>`)
)

// Authorize opens the page of a development issuer, submits the decision of the user, and returns the URL that the
// issuer redirects to, without opening it. If the issuer shows an error, Authorize returns its text as an error.
func (b *Browser) Authorize(ctx context.Context, page string) (redirect string, err error) {
	text, redirect, err := b.do(ctx, http.MethodGet, page, nil)
	if redirect != "" || err != nil {
		return redirect, err
	}
	return b.decide(ctx, page, text)
}

// decide submits the form of the page of an issuer.
func (b *Browser) decide(ctx context.Context, page, text string) (redirect string, err error) {
	form := url.Values{"decision": {"allow"}, "user": {b.User}}
	if b.Deny {
		form.Set("decision", "deny")
	}
	for issuer, user := range b.Accounts {
		if strings.HasPrefix(page, issuer) {
			form.Set("user", user)
		}
	}
	if found := proposed.FindStringSubmatch(text); found != nil && form.Get("user") == "" {
		form.Set("user", html.UnescapeString(found[1]+found[2]))
	}
	_, redirect, err = b.do(ctx, http.MethodPost, page, form)
	if redirect == "" && err == nil {
		err = errors.New("the page of the issuer did not redirect")
	}
	return redirect, err
}

// LogIn opens the page that a program shows its user, and does what the user does: it follows redirects, allows or
// denies the request at the issuer, and presses the button of a page that offers nothing else. It returns the text of
// the last page.
func (b *Browser) LogIn(ctx context.Context, page string) (text string, err error) {
	body, err := b.Open(ctx, http.MethodGet, page)
	if found := button.FindStringSubmatch(body); found != nil && err == nil {
		body, err = b.Open(ctx, http.MethodPost, html.UnescapeString(found[1]))
	}
	return textOf(body), err
}

// Open opens a page with a method, and follows redirects. At an issuer, the user decides. Open returns the last
// page, and an error if its status is not 200.
func (b *Browser) Open(ctx context.Context, method, page string) (body string, err error) {
	for range maxPages {
		body, location, err := b.do(ctx, method, page, nil)
		if err == nil && strings.Contains(body, `name="decision"`) {
			location, err = b.decide(ctx, page, body)
		}
		if err != nil || location == "" {
			return body, err
		}
		base, err := url.Parse(page)
		if err != nil {
			return "", err
		}
		next, err := base.Parse(location)
		if err != nil {
			return "", err
		}
		method, page = http.MethodGet, next.String()
	}
	return "", fmt.Errorf("too many redirects: the limit is %d", maxPages)
}

// do sends a request, and returns the page or the URL of the redirect.
func (b *Browser) do(ctx context.Context, method, page string, form url.Values) (body, location string, err error) {
	if b.jar == nil {
		b.jar, _ = cookiejar.New(nil) // never fails
	}
	r, err := http.NewRequestWithContext(ctx, method, page, strings.NewReader(form.Encode()))
	if err != nil {
		return "", "", err
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", r.URL.Scheme+"://"+r.URL.Host)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	client := &http.Client{Transport: b.Transport, Jar: b.jar,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if b.Transport == nil {
		client.Transport = &http.Transport{DisableKeepAlives: true}
	}
	resp, err := client.Do(r)
	if err != nil {
		if failed := new(url.Error); errors.As(err, &failed) {
			err = failed.Err // without the URL, which contains the state and the code
		}
		return "", "", fmt.Errorf("cannot open a page of %s: %w", r.URL.Host, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	switch {
	case err != nil:
		return "", "", err
	case resp.StatusCode == http.StatusSeeOther:
		return "", resp.Header.Get("Location"), nil
	case resp.StatusCode != http.StatusOK:
		return string(text), "", fmt.Errorf("%s: %s: %s", r.URL.Host, resp.Status, textOf(string(text)))
	}
	return string(text), "", nil
}

// textOf returns the text of a page without tags.
func textOf(page string) string {
	return html.UnescapeString(strings.Join(strings.Fields(anyTag.ReplaceAllString(page, " ")), " "))
}
