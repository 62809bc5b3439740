// Package redirect has the policies for HTTP redirects that the clients of this module
// use. Both are values for http.Client.CheckRedirect.
package redirect

import (
	"net/http"
	"strings"
)

// None follows no redirect: the client returns the redirect itself as the response.
func None(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// SameOrigin returns a policy that follows at most limit redirects, and only those that
// change neither scheme, host and port nor the method. The body and the credentials of a
// request are meant for one origin only, and a POST that becomes a GET is a different request. The
// client returns any other redirect as the response.
func SameOrigin(limit int) func(req *http.Request, via []*http.Request) error {
	return func(req *http.Request, via []*http.Request) error {
		first := via[0]
		if len(via) > limit || req.URL.Scheme != first.URL.Scheme || !strings.EqualFold(req.URL.Host, first.URL.Host) || req.Method != first.Method {
			return http.ErrUseLastResponse
		}
		return nil
	}
}
