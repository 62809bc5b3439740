package httpclient

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/outbound"
)

// Authorizer provides credentials for requests. See client.Authorizer.
type Authorizer interface {
	Authorize(req *http.Request, server string) error
	Reauthorize(req *http.Request, server string, resp *http.Response) (again bool, err error)
}

// observer is an Authorizer that receives the headers of all responses.
type observer interface {
	Observe(server string, header http.Header)
}

// maxReauthorizations is how often one request is sent again with other credentials. A
// nonce, a first token, another nonce and a step-up add up to four.
const maxReauthorizations = 4

// authorized is an http.RoundTripper that adds the credentials of an Authorizer to requests to the origin of a server.
// Requests to other origins, such as after a redirect, get none. It is safe for concurrent use.
type authorized struct {
	auth   Authorizer
	server string
	origin *url.URL
	pause  func() (release func()) // pauses time-outs while a user is asked; may be nil
	given  string                  // names of the headers in the configuration
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (a *authorized) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != a.origin.Scheme || !strings.EqualFold(req.URL.Host, a.origin.Host) {
		return a.next.RoundTrip(req)
	}
	for attempts := 0; ; attempts++ {
		sent, err := a.prepare(req, attempts > 0)
		if err != nil {
			if req.Body != nil {
				req.Body.Close()
			}
			return nil, a.unauthorized(req, err)
		}
		resp, err := a.next.RoundTrip(sent)
		if err != nil {
			return nil, err
		}
		if o, ok := a.auth.(observer); ok {
			o.Observe(a.server, resp.Header)
		}
		rejected := resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden
		// It is not worth asking a user for credentials only to end a session with DELETE.
		if !rejected || attempts == maxReauthorizations || req.Method == http.MethodDelete {
			return resp, nil
		}
		again, err := a.auth.Reauthorize(sent, a.server, resp)
		if err == nil && !again {
			return resp, nil
		}
		finish(resp.Body)
		if err != nil {
			return nil, a.unauthorized(req, err)
		}
	}
}

// prepare returns a copy of the request with credentials and, if again is set, a new body.
// A RoundTripper must not change the request itself.
func (a *authorized) prepare(req *http.Request, again bool) (*http.Request, error) {
	sent := req.WithContext(outbound.WithTimeoutPause(req.Context(), a.pause))
	sent.Header = req.Header.Clone()
	if again && req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return nil, err
		}
		sent.Body = body
	}
	return sent, a.auth.Authorize(sent, a.server)
}

// unauthorized returns the error for a request that was not served for lack of credentials.
func (a *authorized) unauthorized(req *http.Request, err error) error {
	if req.Context().Err() != nil {
		return context.Cause(req.Context())
	}
	return fmt.Errorf("%w%s: %w", call.ErrUnauthorized, a.given, err)
}

// authorize makes c add the credentials of o.Auth, if that is set, to its requests.
func (o *Options) authorize(c *http.Client, pause func() (release func())) {
	if o.Auth == nil {
		return
	}
	origin, err := url.Parse(o.URL)
	if err != nil {
		return // newRequest reports the error
	}
	next := c.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	c.Transport = &authorized{auth: o.Auth, server: o.URL, origin: origin, pause: pause, given: o.givenHeaders(),
		next: next}
}

// CloseIdleConnections implements the method that http.Client.CloseIdleConnections calls.
func (a *authorized) CloseIdleConnections() { closeIdle(a.next) }

// pauser is a Receiver whose time-outs can be paused.
type pauser interface {
	PauseTimeouts() *outbound.TimeoutPause
}

var _ pauser = (*outbound.Requests)(nil)

// pauseFunc returns a function that pauses the time-outs of to, or nil if it has none.
func pauseFunc(to outbound.Receiver) func() (release func()) {
	p, ok := to.(pauser)
	if !ok {
		return nil
	}
	return func() (release func()) { return p.PauseTimeouts().Resume }
}
