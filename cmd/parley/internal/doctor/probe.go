package doctor

import (
	"bytes"
	"context"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/traffic"
	"github.com/parley-mcp/parley/internal/dial/httpclient"
	"github.com/parley-mcp/parley/internal/redirect"
	"github.com/parley-mcp/parley/jsonrpc"
)

// prober sends single HTTP requests to an endpoint, with the credentials of the target.
type prober struct {
	target *client.HTTPTarget
	auth   client.Authorizer // nil: none
	base   http.RoundTripper // nil: http.DefaultTransport
}

func (e *Examination) newProber(target *client.HTTPTarget) *prober {
	p := &prober{target: target, auth: e.Dialer.Auth, base: httpclient.NewTransport()}
	if e.Dialer.HTTPClient != nil {
		p.base = e.Dialer.HTTPClient.Transport
	}
	return p
}

// answer is an HTTP response and, if it has one, the first JSON-RPC response in it.
type answer struct {
	status  int
	header  http.Header
	media   string // the media type, without parameters
	empty   bool   // the body is empty
	message *jsonrpc.Message
}

// failed reports whether the message is an error with a code.
func (a *answer) failed(code int64) bool {
	return a.message != nil && a.message.Err != nil && a.message.Err.Code == code
}

const (
	maxProbeBody   = 1 << 20 // bytes of a response that are read
	contentJSON    = "application/json"
	contentEvents  = "text/event-stream"
	headerRevision = "Mcp-Protocol-Version"
	headerSession  = "Mcp-Session-Id"
	headerMethod   = "Mcp-Method"
)

// post sends a message. Headers are names and values in turn; Host is one of them.
func (p *prober) post(ctx context.Context, message string, headers ...string) (*answer, error) {
	return p.send(ctx, http.MethodPost, message, append([]string{"Content-Type", contentJSON, "Accept", contentJSON + ", " + contentEvents}, headers...)...)
}

// send sends a request and reads the response: up to the first JSON-RPC response of an event stream, and nothing of a
// stream that answers a GET. It follows no redirects.
func (p *prober) send(ctx context.Context, method, message string, headers ...string) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := p.request(ctx, method, message, headers)
	if err != nil {
		return nil, err
	}
	a := &answer{empty: true}
	transport := &traffic.Transport{Base: p.base, Report: func(e traffic.Event) {
		if e.From == traffic.Server && len(e.Message) > 0 {
			a.empty = false
			if m, err := jsonrpc.Parse(bytes.TrimSpace(bytes.Clone(e.Message)), jsonrpc.Limits{}); err == nil && m.Kind == jsonrpc.Response && a.message == nil {
				a.message = &m
			}
		}
	}}
	h := &http.Client{Transport: transport, CheckRedirect: redirect.None}
	resp, err := h.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	a.status, a.header = resp.StatusCode, resp.Header
	a.media, _, _ = mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if a.media == contentEvents && method == http.MethodGet {
		return a, nil
	}
	body := io.LimitReader(resp.Body, maxProbeBody)
	for buffer := make([]byte, 4096); a.message == nil; {
		if _, err = body.Read(buffer); err != nil {
			break
		}
	}
	if err != nil && err != io.EOF {
		return nil, err
	}
	return a, nil
}

// request returns a request with the headers of the target and others, and with credentials.
func (p *prober) request(ctx context.Context, method, message string, headers []string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, p.target.URL, strings.NewReader(message))
	if err != nil {
		return nil, err
	}
	for name, values := range p.target.Header {
		req.Header[name] = values
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		} else {
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	if p.auth != nil && p.target.Header.Get("Authorization") == "" {
		if err := p.auth.Authorize(req, p.target.URL); err != nil {
			return nil, err
		}
	}
	return req, nil
}
