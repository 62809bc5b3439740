// Package redirect contains the CheckRedirect functions of the HTTP clients in this module, and describes redirects
// that are not followed.
package redirect

import (
	"net/http"
	"net/url"
	"strings"
)

// None follows no redirect: the client returns the redirect itself as the response.
func None(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// SameOrigin returns a policy that follows at most limit redirects, and only redirects that keep
// the scheme, host, port and method. The body and the credentials of a request are meant for one
// origin only, and a POST that becomes a GET is a different request. The client returns any other
// redirect as the response.
func SameOrigin(limit int) func(req *http.Request, via []*http.Request) error {
	return func(req *http.Request, via []*http.Request) error {
		first := via[0]
		if len(via) > limit || req.URL.Scheme != first.URL.Scheme || !strings.EqualFold(req.URL.Host, first.URL.Host) ||
			req.Method != first.Method {
			return http.ErrUseLastResponse
		}
		return nil
	}
}

// maxTarget limits the length of a target in an error, in bytes.
const maxTarget = 512

// Target returns the URL that a response redirects to, without user information, query and fragment, which may be
// secret. It returns "" if the response is not a redirect.
func Target(resp *http.Response) string {
	if resp.StatusCode < 300 || resp.StatusCode > 399 {
		return ""
	}
	u, err := resp.Location()
	if err != nil {
		return ""
	}
	text := (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
	return text[:min(len(text), maxTarget)]
}
