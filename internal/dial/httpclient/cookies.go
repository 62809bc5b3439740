package httpclient

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
)

// Limits of the cookies of a session, so that a server cannot fill the memory.
const (
	maxCookies = 50
	maxCookie  = 4 << 10 // bytes
)

// sticky is an http.RoundTripper that keeps the cookies of one origin, in memory and for one session: load balancers
// find the replica of a session by a cookie. Requests to other origins, such as after a redirect, neither send nor
// set cookies. It is safe for concurrent use.
type sticky struct {
	origin *url.URL
	next   http.RoundTripper
	jar    *cookiejar.Jar
	any    atomic.Bool // a cookie was stored in the jar

	mu    sync.Mutex
	names map[string]bool
}

// keepCookies makes c keep the cookies of the origin of o.URL, unless the caller's HTTP client has a Jar.
func (o *Options) keepCookies(c *http.Client) {
	origin, err := url.Parse(o.URL)
	if err != nil || c.Jar != nil {
		return // newRequest reports the error
	}
	jar, _ := cookiejar.New(nil) // cookiejar.New never fails
	c.Transport = &sticky{origin: origin, next: c.Transport, jar: jar, names: make(map[string]bool)}
}

// RoundTrip implements http.RoundTripper.
func (s *sticky) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != s.origin.Scheme || !strings.EqualFold(req.URL.Host, s.origin.Host) {
		return s.next.RoundTrip(req)
	}
	if s.any.Load() {
		if cookies := s.jar.Cookies(req.URL); len(cookies) > 0 {
			sent := *req // a RoundTripper must not change the request
			sent.Header = req.Header.Clone()
			for _, c := range cookies {
				if _, err := req.Cookie(c.Name); err != nil { // cookies of the configuration win
					sent.AddCookie(c)
				}
			}
			req = &sent
		}
	}
	resp, err := s.next.RoundTrip(req)
	if err == nil && len(resp.Header["Set-Cookie"]) > 0 {
		s.keep(req.URL, resp.Cookies())
	}
	return resp, err
}

func (s *sticky) keep(from *url.URL, cookies []*http.Cookie) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range cookies {
		if len(c.Name)+len(c.Value)+len(c.Path)+len(c.Domain) > maxCookie ||
			!s.names[c.Name] && len(s.names) == maxCookies {
			continue
		}
		s.names[c.Name] = true
		s.jar.SetCookies(from, []*http.Cookie{c})
		s.any.Store(true)
	}
}

// CloseIdleConnections implements the method that http.Client.CloseIdleConnections calls.
func (s *sticky) CloseIdleConnections() { closeIdle(s.next) }

func closeIdle(next http.RoundTripper) {
	if next, ok := next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}
