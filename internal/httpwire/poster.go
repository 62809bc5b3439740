package httpwire

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
)

// poster sends the POST requests of a client. It has the effect of http.Client, which for each
// request parses the URL, and copies the headers in case of a redirect. It is safe for concurrent
// use.
type poster struct {
	client *http.Client
	direct http.RoundTripper // nil if the requests need client: for cookies, a time-out or a password
	base   *http.Request     // the URL and headers that all requests share
}

// newPoster returns a poster of requests to the URL of o.
func newPoster(o *Options, client *http.Client) (*poster, error) {
	base, err := o.newRequest(context.Background(), http.MethodPost, o.URL, nil)
	if err != nil {
		return nil, err
	}
	p := &poster{client: client, base: base}
	if client.Jar == nil && client.Timeout == 0 && base.URL.User == nil {
		if p.direct = client.Transport; p.direct == nil {
			p.direct = http.DefaultTransport
		}
	}
	return p, nil
}

// request returns a request with the headers of the options.
func (p *poster) request(ctx context.Context, body []byte) *http.Request {
	req := p.base.WithContext(ctx)
	u := *p.base.URL
	req.URL = &u
	req.Header = make(http.Header, len(p.base.Header)+8)
	maps.Copy(req.Header, p.base.Header)
	req.ContentLength = int64(len(body))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	req.Body, _ = req.GetBody()
	return req
}

// do sends a request that the method request returned. The error is as of http.Client.Do.
func (p *poster) do(req *http.Request) (*http.Response, error) {
	if p.direct == nil {
		return p.client.Do(req)
	}
	resp, err := p.direct.RoundTrip(req)
	if err != nil {
		if plain := (tls.RecordHeaderError{}); errors.As(err, &plain) && string(plain.RecordHeader[:]) == "HTTP/" {
			err = http.ErrSchemeMismatch
		}
		return nil, &url.Error{Op: "Post", URL: req.URL.Redacted(), Err: err}
	}
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		client := *p.client
		client.Transport = &redirected{first: resp, next: p.direct}
		return client.Do(req)
	}
	return resp, nil
}

// redirected is an http.RoundTripper whose first response is already there.
type redirected struct {
	first *http.Response
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (r *redirected) RoundTrip(req *http.Request) (*http.Response, error) {
	if resp := r.first; resp != nil {
		r.first = nil
		return resp, nil
	}
	return r.next.RoundTrip(req)
}
