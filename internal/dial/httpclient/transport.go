package httpclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/internal/httpcodec"
)

const (
	maxResponseHeader = 256 << 10 // bytes
	maxIdle           = 64        // idle connections per host
	// idleTimeout is how long a connection may be idle. Many servers close connections after five seconds, the default
	// of Node. If a connection closes just as a request is sent on it, the request is lost: it cannot be repeated,
	// because it may have run.
	idleTimeout = 4 * time.Second
	// idleMargin is how long before the server a client closes an idle connection.
	idleMargin = time.Second
)

// transport is an http.RoundTripper that closes idle connections before the server does: after idleTimeout or, if the
// server announces an earlier end (Keep-Alive: timeout=N, in seconds), before that. It is safe for concurrent use.
type transport struct {
	current atomic.Pointer[http.Transport]
	mu      sync.Mutex // held while current changes
}

// NewTransport returns an http.RoundTripper with its own connections, and with the settings of http.DefaultTransport
// otherwise. It closes idle connections before the server does. NewTransport returns nil if the program has replaced
// http.DefaultTransport with another kind of http.RoundTripper: that one is used then.
func NewTransport() http.RoundTripper {
	shared, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil
	}
	own := shared.Clone()
	own.MaxIdleConnsPerHost, own.MaxResponseHeaderBytes, own.IdleConnTimeout = maxIdle, maxResponseHeader, idleTimeout
	t := new(transport)
	t.current.Store(own)
	return t
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.current.Load().RoundTrip(req)
	if err == nil {
		if limit, ok := announcedIdle(resp.Header); ok {
			t.limitIdle(limit)
		}
	}
	return resp, err
}

// limitIdle makes the transport close connections after they are idle for limit; if limit is 0 or less, it keeps no
// idle connections. It never raises a limit, because the transport may have connections to other servers. The settings
// of an http.Transport must not change while it is used, so limitIdle replaces it; its connections in use are closed
// when their responses end.
func (t *transport) limitIdle(limit time.Duration) {
	if old := t.current.Load(); limit >= old.IdleConnTimeout || old.DisableKeepAlives {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.current.Load()
	if limit >= old.IdleConnTimeout || old.DisableKeepAlives {
		return
	}
	next := old.Clone()
	next.IdleConnTimeout, next.DisableKeepAlives = limit, limit <= 0
	t.current.Store(next)
	old.CloseIdleConnections()
}

// CloseIdleConnections implements the method that http.Client.CloseIdleConnections calls.
func (t *transport) CloseIdleConnections() { t.current.Load().CloseIdleConnections() }

// announcedIdle returns how long a connection may be idle according to the Keep-Alive header of a response, less
// a margin.
func announcedIdle(h http.Header) (time.Duration, bool) {
	for parameter := range strings.SplitSeq(httpcodec.First(h, "Keep-Alive"), ",") {
		name, value, _ := strings.Cut(parameter, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "timeout") {
			continue
		}
		seconds, err := strconv.ParseUint(strings.TrimSpace(value), 10, 31)
		announced := time.Duration(seconds) * time.Second
		return max(announced-idleMargin, announced/2), err == nil
	}
	return 0, false
}

// once is an http.RoundTripper whose POST requests net/http does not repeat. It would repeat a request with an
// idempotency key when the connection breaks, although the tool that then runs twice may not know such keys. It
// only recognizes the usual spelling of the header, so once sends the name in lower case. It also decodes
// responses; see decode.
type once struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (o once) RoundTrip(req *http.Request) (*http.Response, error) {
	next := o.next
	if next == nil {
		next = http.DefaultTransport
	}
	for _, name := range [...]string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, ok := req.Header[name]; ok && req.Method == http.MethodPost {
			sent := *req // a RoundTripper must not change the request
			sent.Header = maps.Clone(req.Header)
			delete(sent.Header, name)
			sent.Header[strings.ToLower(name)] = values
			req = &sent
		}
	}
	resp, err := next.RoundTrip(req)
	if err == nil && resp.Header["Content-Encoding"] != nil {
		decode(resp)
	}
	return resp, err
}

// CloseIdleConnections implements the method that http.Client.CloseIdleConnections calls.
func (o once) CloseIdleConnections() { closeIdle(o.next) }

// poster sends the POST requests of a client. It behaves like http.Client, but does not parse the URL for each request
// or copy the headers in case of a redirect: a call through the gateway makes 48 allocations instead of 54. It is safe
// for concurrent use.
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

// do sends a request that the method request returned. It returns errors as http.Client.Do does.
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
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect,
		http.StatusPermanentRedirect:
		client := *p.client
		client.Transport = &redirected{first: resp, next: p.direct}
		return client.Do(req)
	}
	return resp, nil
}

// redirected is an http.RoundTripper that already has its first response.
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
