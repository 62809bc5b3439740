package devissuer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/internal/redirect"
)

// Browser simulates a user with a browser, for tests: it opens the consent page, stores its
// cookie and submits the form. The zero value allows all scopes as the first user. A Browser
// is not safe for concurrent use.
type Browser struct {
	// User is the user to log in as; empty: the first user of the page, or the name that it
	// proposes.
	User string

	// Deny denies access.
	Deny bool

	// Transport sends the requests; nil: http.DefaultTransport.
	Transport http.RoundTripper

	without []string // scopes to deselect
	jar     http.CookieJar
}

var (
	inputTag  = regexp.MustCompile(`<input type="(?:hidden|checkbox|text)"(?: id="user")? name="([a-z]+)" value="([^"]*)"`)
	optionTag = regexp.MustCompile(`<option>([^<]*)</option>`)
	// buttonForm is a form that has only a button. Its action is a URL.
	buttonForm = regexp.MustCompile(`<form method="post" action="(https?://[^"]+)"><button>`)
	entities   = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&#34;", `"`, "&#39;", "'", "&#43;", "+", "&amp;", "&")
)

// Authorize opens the authorization page, submits the consent form, and returns the URL that
// the issuer redirects to, without opening it. If the issuer shows an error page, Authorize returns its
// text as an error.
func (b *Browser) Authorize(ctx context.Context, page string) (redirect string, err error) {
	body, redirect, err := b.do(ctx, http.MethodGet, page, nil)
	if redirect != "" || err != nil {
		return redirect, err
	}
	form := url.Values{"decision": {"allow"}}
	if b.Deny {
		form.Set("decision", "deny")
	}
	for _, tag := range inputTag.FindAllStringSubmatch(body, -1) {
		form.Add(tag[1], entities.Replace(tag[2]))
	}
	if option := optionTag.FindStringSubmatch(body); option != nil {
		form.Set("user", entities.Replace(option[1]))
	}
	if b.User != "" {
		form.Set("user", b.User)
	}
	for _, scope := range b.without {
		form["scope"] = slices.DeleteFunc(form["scope"], func(selected string) bool { return selected == scope })
	}
	target, err := url.Parse(page)
	if err != nil {
		return "", err
	}
	target.RawQuery = ""
	if _, redirect, err = b.do(ctx, http.MethodPost, target.String(), form); redirect == "" && err == nil {
		err = errors.New("devissuer: the consent page did not redirect")
	}
	return redirect, err
}

// maxPages is the maximum number of pages of a login.
const maxPages = 10

// LogIn opens the page that a program shows its user, follows the redirects to the issuer,
// submits the consent form, and follows the redirect back to the program. It presses the button of a form
// without fields. It returns the text of the last page.
func (b *Browser) LogIn(ctx context.Context, page string) (text string, err error) {
	for range maxPages {
		body, location, err := b.do(ctx, http.MethodGet, page, nil)
		switch {
		case err != nil:
			return "", err
		case location == "" && strings.Contains(body, `action="/authorize"`):
			if location, err = b.Authorize(ctx, page); err != nil {
				return "", err
			}
		case location == "" && buttonForm.MatchString(body):
			action := entities.Replace(buttonForm.FindStringSubmatch(body)[1])
			if body, location, err = b.do(ctx, http.MethodPost, action, url.Values{}); err != nil || location == "" {
				return textOf(body), err
			}
		case location == "":
			return textOf(body), nil
		}
		base, err := url.Parse(page)
		if err != nil {
			return "", err
		}
		next, err := base.Parse(location)
		if err != nil {
			return "", err
		}
		page = next.String()
	}
	return "", fmt.Errorf("devissuer: too many redirects: the limit is %d", maxPages)
}

// do sends a request, and returns the page or the URL of the redirect.
func (b *Browser) do(ctx context.Context, method, address string, form url.Values) (page, location string, err error) {
	if b.jar == nil {
		if b.jar, err = cookiejar.New(nil); err != nil {
			return "", "", err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(form.Encode()))
	if err != nil {
		return "", "", err
	}
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("Origin", request.URL.Scheme+"://"+request.URL.Host)
		request.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	client := &http.Client{Transport: b.Transport, Jar: b.jar, CheckRedirect: redirect.None}
	response, err := client.Do(request)
	if err != nil {
		var failed *url.Error // its URL contains state and code
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return "", "", fmt.Errorf("devissuer: cannot open a page of %s: %w", request.URL.Host, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return "", "", err
	}
	switch {
	case response.StatusCode == http.StatusSeeOther:
		return "", response.Header.Get("Location"), nil
	case response.StatusCode != http.StatusOK:
		return "", "", fmt.Errorf("devissuer: HTTP status %d: %s", response.StatusCode, textOf(string(body)))
	}
	return string(body), "", nil
}

var anyTag = regexp.MustCompile(`(?s)<style>.*?</style>|<[^>]*>`)

// textOf returns the text of a page without tags.
func textOf(page string) string {
	return entities.Replace(strings.Join(strings.Fields(anyTag.ReplaceAllString(page, " ")), " "))
}
