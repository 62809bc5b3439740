package httpwire

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

	"github.com/parley-mcp/parley/internal/redirect"
	"github.com/parley-mcp/parley/jsonrpc"
)

// Options are what both kinds of client have in common.
type Options struct {
	URL           string
	HTTP          *http.Client // nil: one of our own
	Header        http.Header  // sent with every request
	Auth          Authorizer   // nil: none
	Logger        *slog.Logger
	Limits        jsonrpc.Limits
	MaxMessage    int // bytes of one response or event
	Trace         func(sent bool, message []byte)
	DetectSilence bool // streams whose keep-alive comments stop are lost
}

// watchBeats has a stream be lost when it stays silent.
func (o *Options) watchSilence(events *eventReader, body io.Closer) {
	if o.DetectSilence {
		events.monitor = &silenceMonitor{body: body}
	}
}

func (o *Options) trace(sent bool, message []byte) {
	if o.Trace != nil {
		o.Trace(sent, message)
	}
}

const (
	maxRedirects      = 3
	maxResponseHeader = 256 << 10 // bytes
	maxIdle           = 64        // connections that are kept for the next requests
)

// newHTTP makes an HTTP client that keeps to the server's origin.
func (o *Options) newHTTP() *http.Client {
	c := &http.Client{}
	if o.HTTP != nil {
		*c = *o.HTTP
	} else if shared, ok := http.DefaultTransport.(*http.Transport); ok {
		own := shared.Clone()
		own.MaxIdleConnsPerHost = maxIdle
		own.MaxResponseHeaderBytes = maxResponseHeader
		c.Transport = own
	}
	c.CheckRedirect = redirect.SameOrigin(maxRedirects)
	return c
}

// closeIdle closes the connections that wait for more requests, if they are ours.
func (o *Options) closeIdle(c *http.Client) {
	if o.HTTP == nil && c.Transport != nil {
		c.CloseIdleConnections()
	}
}

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

// redact takes the URL out of an error of net/http: it can hold secrets.
func redact(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return fmt.Errorf("%s: %w", strings.ToUpper(u.Op), u.Err)
	}
	return err
}

// neverConnected reports whether there was not even a connection to send a request on.
func neverConnected(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
