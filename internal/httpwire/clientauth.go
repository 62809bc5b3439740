package httpwire

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
)

// Authorizer has the credentials that a server wants to see. See client.Authorizer.
type Authorizer interface {
	Authorize(req *http.Request, server string) error
	Reauthorize(req *http.Request, server string, resp *http.Response) (again bool, err error)
}

// observer is an Authorizer that wants to see the headers of all responses.
type observer interface {
	Observe(server string, header http.Header)
}

// maxRefusals is how often one request is sent again with other credentials: a nonce,
// a first token, another nonce and a step-up are four.
const maxReauthorizations = 4

// authorized puts an Authorizer's credentials on what is sent to a server, and on
// nothing else: it sees each hop of a redirect, and looks where that leads.
type authorized struct {
	auth   Authorizer
	server string
	origin *url.URL
	pause  func() (release func()) // stops the clocks of requests while a user is asked
	next   http.RoundTripper
}

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
			return nil, unauthorized(req, err)
		}
		resp, err := a.next.RoundTrip(sent)
		if err != nil {
			return nil, err
		}
		if o, ok := a.auth.(observer); ok {
			o.Observe(a.server, resp.Header)
		}
		rejected := resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden
		// A goodbye is not worth asking somebody for.
		if !rejected || attempts == maxReauthorizations || req.Method == http.MethodDelete {
			return resp, nil
		}
		again, err := a.auth.Reauthorize(sent, a.server, resp)
		if err == nil && !again {
			return resp, nil
		}
		finish(resp.Body)
		if err != nil {
			return nil, unauthorized(req, err)
		}
	}
}

// prepare makes the request to send: with credentials, and with its body once more.
// The request itself stays as it is, as a RoundTripper's has to.
func (a *authorized) prepare(req *http.Request, again bool) (*http.Request, error) {
	sent := req.WithContext(rpc.WithTimeoutPause(req.Context(), a.pause))
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

// unauthorized says that a request was not acted on for want of credentials.
func unauthorized(req *http.Request, err error) error {
	if req.Context().Err() != nil {
		return context.Cause(req.Context())
	}
	return fmt.Errorf("%w: %w", call.ErrUnauthorized, err)
}

// authorize puts the credentials of an Authorizer, if there is one, on all that c sends.
func (o *Options) authorize(c *http.Client, pause func() (release func())) {
	if o.Auth == nil {
		return
	}
	origin, err := url.Parse(o.URL)
	if err != nil {
		return // no request can be made of it either
	}
	next := c.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	c.Transport = &authorized{auth: o.Auth, server: o.URL, origin: origin, pause: pause, next: next}
}

// CloseIdleConnections is what http.Client looks for.
func (a *authorized) CloseIdleConnections() {
	if next, ok := a.next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

// holder is a Receiver whose clocks can be stopped. See call.Outbound.
type pauser interface {
	Hold() *rpc.TimeoutPause
}

func pauseFunc(to rpc.Receiver) func() (release func()) {
	h, ok := to.(pauser)
	if !ok {
		return nil
	}
	return func() (release func()) { return h.Hold().Resume }
}
