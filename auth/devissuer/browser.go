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
	"strings"

	"github.com/parley-mcp/parley/internal/redirect"
)

// Browser is a person at a browser, for tests without either: it opens the consent page, keeps its
// cookie and presses a button. The zero value allows everything as the first user that it is offered.
// A Browser is not for concurrent use.
type Browser struct {
	// User is who signs in.
	User string

	// Deny presses the other button.
	Deny bool

	// Without are scopes whose boxes are unchecked first.
	Without []string

	// Transport gets the pages; nil: http.DefaultTransport.
	Transport http.RoundTripper

	jar http.CookieJar
}

var (
	inputTag  = regexp.MustCompile(`<input type="(?:hidden|checkbox)" name="([a-z]+)" value="([^"]*)"`)
	optionTag = regexp.MustCompile(`<option>([^<]*)</option>`)
	entities  = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&#34;", `"`, "&#39;", "'", "&#43;", "+", "&amp;", "&")
)

// Authorize opens the page of an authorization request, answers it, and returns the URL that the
// issuer sends the browser back to. It does not open that one. If the issuer has a page with a reason
// instead of a question, that is the error.
func (b *Browser) Authorize(ctx context.Context, page string) (callback string, err error) {
	shown, callback, err := b.do(ctx, http.MethodGet, page, nil)
	if callback != "" || err != nil {
		return callback, err
	}
	form := url.Values{"answer": {"allow"}}
	if b.Deny {
		form.Set("answer", "deny")
	}
	for _, tag := range inputTag.FindAllStringSubmatch(shown, -1) {
		form.Add(tag[1], entities.Replace(tag[2]))
	}
	if option := optionTag.FindStringSubmatch(shown); option != nil {
		form.Set("user", entities.Replace(option[1]))
	}
	if b.User != "" {
		form.Set("user", b.User)
	}
	for _, scope := range b.Without {
		kept := form["scope"][:0]
		for _, checked := range form["scope"] {
			if checked != scope {
				kept = append(kept, checked)
			}
		}
		form["scope"] = kept
	}
	target, err := url.Parse(page)
	if err != nil {
		return "", err
	}
	target.RawQuery = ""
	if _, callback, err = b.do(ctx, http.MethodPost, target.String(), form); callback == "" && err == nil {
		err = errors.New("devissuer: the consent page sent the browser nowhere")
	}
	return callback, err
}

// maxHops is how often a browser is sent elsewhere on its way through a login.
const maxHops = 10

// LogIn begins at the page that a program has its user open, and does what there is to do until
// nothing sends it on: it is sent to the issuer, answers the consent page, and is sent back to the
// program. It returns the text of the page at which it ends.
func (b *Browser) LogIn(ctx context.Context, page string) (text string, err error) {
	for range maxHops {
		shown, location, err := b.do(ctx, http.MethodGet, page, nil)
		switch {
		case err != nil:
			return "", err
		case location == "" && strings.Contains(shown, `action="/authorize"`):
			if location, err = b.Authorize(ctx, page); err != nil {
				return "", err
			}
		case location == "":
			return textOf(shown), nil
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
	return "", fmt.Errorf("devissuer: sent elsewhere %d times", maxHops)
}

// do returns the page that is shown, or where the browser is sent.
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
	answer, err := client.Do(request)
	if err != nil {
		var failed *url.Error // whose URL holds the state, and on the way back the code
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return "", "", fmt.Errorf("devissuer: the page at %s: %w", request.URL.Host, err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		return "", "", err
	}
	switch {
	case answer.StatusCode == http.StatusSeeOther:
		return "", answer.Header.Get("Location"), nil
	case answer.StatusCode != http.StatusOK:
		return "", "", fmt.Errorf("devissuer: status %d: %s", answer.StatusCode, textOf(string(body)))
	}
	return string(body), "", nil
}

var anyTag = regexp.MustCompile(`(?s)<style>.*?</style>|<[^>]*>`)

// textOf is what a person reads on a page.
func textOf(page string) string {
	return entities.Replace(strings.Join(strings.Fields(anyTag.ReplaceAllString(page, " ")), " "))
}
