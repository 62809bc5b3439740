package gatewaytest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"strings"
)

// maxPages limits the redirects of a page.
const maxPages = 10

// Account is the account of a user at an issuer, such as a *devissuer.Browser.
type Account interface {
	// Authorize allows the request of an authorization page, and returns the redirect.
	Authorize(ctx context.Context, page string) (redirect string, err error)
}

// Browser is the browser of a user who logs in at the pages of a gateway. It keeps cookies. It is not safe for
// concurrent use.
type Browser struct {
	accounts map[string]Account
	client   http.Client
}

// NewBrowser returns a browser of a user with an account at each issuer. The keys of accounts are the URLs of the
// issuers.
func NewBrowser(accounts map[string]Account) *Browser {
	jar, _ := cookiejar.New(nil) // never fails
	b := &Browser{accounts: accounts}
	b.client.Jar = jar
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return b
}

// Open opens a page with a method, and follows redirects. At an issuer the user allows the request. Open returns the
// text of the last page, and an error if its status is not 200.
func (b *Browser) Open(ctx context.Context, method, address string) (body string, err error) {
	defer b.client.CloseIdleConnections()
	for range maxPages {
		for issuer, account := range b.accounts {
			if strings.HasPrefix(address, issuer) {
				if address, err = account.Authorize(ctx, address); err != nil {
					return "", err
				}
				break
			}
		}
		r, err := http.NewRequestWithContext(ctx, method, address, nil)
		if err != nil {
			return "", err
		}
		if method == http.MethodPost {
			r.Header.Set("Sec-Fetch-Site", "same-origin")
		}
		resp, err := b.client.Do(r)
		if err != nil {
			return "", err
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		switch {
		case err != nil:
			return "", err
		case resp.StatusCode == http.StatusSeeOther:
			method, address = http.MethodGet, resp.Header.Get("Location")
		case resp.StatusCode != http.StatusOK:
			return string(text), fmt.Errorf("%s: %s: %s", address, resp.Status, text)
		default:
			return string(text), nil
		}
	}
	return "", errors.New("too many redirects")
}
