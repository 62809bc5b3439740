package httpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/parley-mcp/parley/internal/httpcodec"
	"github.com/parley-mcp/parley/internal/httpurl"
	"github.com/parley-mcp/parley/internal/redirect"
	"github.com/parley-mcp/parley/jsonrpc"
)

// Options configure a [Client] or a [PairClient].
type Options struct {
	URL           string
	HTTP          *http.Client // nil: a client with its own connections
	Header        http.Header  // sent with every request
	Auth          Authorizer   // nil: none
	Logger        *slog.Logger
	Limits        jsonrpc.Limits
	MaxMessage    int // limit of one response or event, in bytes
	Trace         func(sent bool, message []byte)
	DetectSilence bool // close an event stream when its keep-alive comments stop
}

// watchSilence closes body when the stream goes silent, if DetectSilence is set.
func (o *Options) watchSilence(events *httpcodec.EventReader, body io.Closer) {
	if o.DetectSilence {
		events.CloseWhenSilent(body)
	}
}

func (o *Options) trace(sent bool, message []byte) {
	if o.Trace != nil {
		o.Trace(sent, message)
	}
}

const maxRedirects = 3

// newHTTP returns an HTTP client that follows redirects only within the server's origin.
func (o *Options) newHTTP() *http.Client {
	c := &http.Client{}
	if o.HTTP != nil {
		*c = *o.HTTP
	} else {
		c.Transport = NewTransport()
	}
	c.Transport = once{c.Transport}
	c.CheckRedirect = redirect.SameOrigin(maxRedirects)
	return c
}

// closeIdle closes idle connections unless they belong to the caller's HTTP client.
func (o *Options) closeIdle(c *http.Client) {
	if o.HTTP == nil {
		c.CloseIdleConnections()
	}
}

// newRequest returns a request with the headers of o. A nil body means no body.
func (o *Options) newRequest(ctx context.Context, method, to string, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, to, newBody(body))
	if err != nil {
		return nil, redact(err)
	}
	for name, values := range o.Header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	return req, nil
}

// redact removes URLs, which can contain secrets, from an error of net/http.
func redact(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return fmt.Errorf("%s: %w", strings.ToUpper(u.Op), httpurl.Redact(err))
	}
	return httpurl.Redact(err)
}

// neverConnected reports whether err means that no connection could be made.
func neverConnected(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
