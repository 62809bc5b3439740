package doctor

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/jsonrpc"
)

// prober sends single HTTP requests to an endpoint, with the credentials of the target.
type prober struct {
	target *client.HTTPTarget
	auth   client.Authorizer // nil: none
	http   *http.Client
}

// newProber returns a prober that follows no redirects.
func (e *Examination) newProber(target *client.HTTPTarget) *prober {
	h := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if e.Dialer.HTTPClient != nil {
		h.Transport = e.Dialer.HTTPClient.Transport
	}
	return &prober{target, e.Dialer.Auth, h}
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
// stream that answers a GET.
func (p *prober) send(ctx context.Context, method, message string, headers ...string) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
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
	resp, err := p.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	a := &answer{status: resp.StatusCode, header: resp.Header}
	a.media, _, _ = mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if a.media == contentEvents {
		if method == http.MethodPost {
			a.message = readEvents(resp.Body)
		}
		return a, nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProbeBody))
	if err != nil {
		return nil, err
	}
	a.empty = len(body) == 0
	a.message = parseResponse(body)
	return a, nil
}

// readEvents returns the first response in an event stream, nil if there is none.
func readEvents(body io.Reader) *jsonrpc.Message {
	lines := bufio.NewScanner(io.LimitReader(body, maxProbeBody))
	lines.Buffer(nil, maxProbeBody)
	var data []byte
	for lines.Scan() {
		line := lines.Bytes()
		if rest, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			data = append(append(data, bytes.TrimPrefix(rest, []byte(" "))...), '\n')
			continue
		}
		if len(line) > 0 {
			continue
		}
		if m := parseResponse(data); m != nil {
			return m
		}
		data = nil
	}
	return nil
}

// parseResponse parses a JSON-RPC response, nil if body is something else.
func parseResponse(body []byte) *jsonrpc.Message {
	m, err := jsonrpc.Parse(bytes.TrimSpace(body), jsonrpc.Limits{})
	if err != nil || m.Kind != jsonrpc.Response {
		return nil
	}
	return &m
}
