package doctor

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/traffic/recording"
	"github.com/parley-mcp/parley/internal/redirect"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

const pingMessage = `{"jsonrpc":"2.0","id":2,"method":"ping"}`

// initialize returns the first message of a session.
func initialize(version string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + version +
		`","capabilities":{},"clientInfo":{"name":"parley doctor","version":"1"}}}`
}

// session examines sessions over Streamable HTTP in a revision before 2026-07-28 (2025-11-25, basic/transports, Session
// Management).
func (e *Examination) session(ctx context.Context, p *prober, r mcp.Revision) {
	e.apply(ctx, p.originRules(func(headers ...string) (*answer, error) {
		a, err := p.post(ctx, initialize(string(r)), headers...)
		p.end(ctx, a, r)
		return a, err
	}))
	a, err := p.post(ctx, initialize(string(r)))
	if err != nil || a.message == nil || a.message.Err != nil {
		e.report("session", Problem, "answer initialize with a result, as JSON or as an event stream",
			"does not answer initialize in %s with a result", r)
		return
	}
	id := a.header.Get(headerSession)
	e.sessionID(id)
	if id == "" {
		return
	}
	defer p.end(ctx, a, r)
	e.apply(ctx, []rule{{
		check: "session", does: "rejects an unknown session with status 404", level: Problem,
		fails: "does not reject an unknown session with status 404",
		fix:   "answer with status 404, so that clients begin a new session after a restart of the server",
		send: func() (*answer, error) {
			return p.post(ctx, pingMessage, headerRevision, string(r), headerSession, "doctor-unknown-session")
		},
		obeys: func(a *answer) bool { return a.status == http.StatusNotFound },
	}})
}

// end ends the session that an answer to initialize has begun.
func (p *prober) end(ctx context.Context, a *answer, r mcp.Revision) {
	if a == nil || a.header.Get(headerSession) == "" {
		return
	}
	// the server ends it in time otherwise
	_, _ = p.send(ctx, http.MethodDelete, "", headerRevision, string(r), headerSession, a.header.Get(headerSession))
}

// minSessionID is the length of 128 random bits in base 64.
const minSessionID = 22

// sessionID examines the ID of a session.
func (e *Examination) sessionID(id string) {
	visible := strings.IndexFunc(id, func(r rune) bool { return r < 0x21 || r > 0x7E }) < 0
	switch {
	case id == "":
		e.report("session", Note, "", "uses no sessions")
	case !visible:
		e.report("session", Problem, "use visible ASCII characters only",
			"the session ID has characters that are not allowed")
	case len(id) < minSessionID:
		e.report("session", Warning, "use at least 128 random bits",
			"the session ID has only %s, so it can be guessed", terminal.Count(len(id), "character"))
	default:
		e.report("session", OK, "", "session IDs have %d characters", len(id))
	}
}

// prober sends single HTTP requests to an endpoint, with the credentials of the target.
type prober struct {
	target *client.HTTPTarget
	url    string            // where requests go: the URL of the target, or where the server redirects to
	auth   client.Authorizer // nil: none
	base   http.RoundTripper // nil: http.DefaultTransport
}

func (e *Examination) newProber(target *client.HTTPTarget) *prober {
	p := &prober{target: target, url: target.URL, auth: e.Dialer.Auth, base: client.NewTransport()}
	if e.Dialer.HTTPClient != nil {
		p.base = e.Dialer.HTTPClient.Transport
	}
	return p
}

// answer is an HTTP response and, if it has one, the first JSON-RPC response in it.
type answer struct {
	status  int
	header  http.Header
	message *jsonrpc.Message
}

const (
	maxProbeBody   = 1 << 20 // bytes of a response that are read
	maxRedirects   = 3       // as of a client
	contentJSON    = "application/json"
	contentEvents  = "text/event-stream"
	headerRevision = "Mcp-Protocol-Version"
	headerSession  = "Mcp-Session-Id"
	headerMethod   = "Mcp-Method"
)

// post sends a message. Headers are names and values in turn; Host is one of them.
func (p *prober) post(ctx context.Context, message string, headers ...string) (*answer, error) {
	return p.send(ctx, http.MethodPost, message,
		append([]string{"Content-Type", contentJSON, "Accept", contentJSON + ", " + contentEvents}, headers...)...)
}

// send sends a request and reads the response, up to the first JSON-RPC response of an event stream. It follows the
// same redirects as a client. Later requests go where the last one led, because a redirect of a request for another
// host can lead to that host.
func (p *prober) send(ctx context.Context, method, message string, headers ...string) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := p.request(ctx, method, message, headers)
	if err != nil {
		return nil, err
	}
	a := &answer{}
	transport := &recording.Transport{Base: p.base, Report: func(e recording.Event) {
		if e.From != recording.Server || a.message != nil {
			return
		}
		if m, err := jsonrpc.Parse(bytes.TrimSpace(bytes.Clone(e.Message)), jsonrpc.Limits{}); err == nil &&
			m.Kind == jsonrpc.Response {
			a.message = &m
		}
	}}
	h := &http.Client{Transport: transport, CheckRedirect: redirect.SameOrigin(maxRedirects)}
	resp, err := h.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	a.status, a.header = resp.StatusCode, resp.Header
	p.url = resp.Request.URL.String()
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
	req, err := http.NewRequestWithContext(ctx, method, p.url, strings.NewReader(message))
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
