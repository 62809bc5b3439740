package doctor

import (
	"bytes"
	"context"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/traffic/recording"
	"github.com/parley-mcp/parley/internal/redirect"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

const codeMethodNotFound = jsonrpc.CodeMethodNotFound

const (
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	pingMessage = `{"jsonrpc":"2.0","id":2,"method":"ping"}`
)

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
	e.apply(ctx, []rule{{
		check: "revisions", does: "answers initialize with an unknown revision by offering one that it supports",
		level: Warning,
		fix:   "answer with the newest revision that the server supports (lifecycle, Version Negotiation)",
		send: func() (*answer, error) {
			a, err := p.post(ctx, initialize(unknownRevision))
			p.end(ctx, a, r)
			return a, err
		},
		obeys: func(a *answer) bool {
			return a.message != nil && a.message.Err == nil &&
				strings.Contains(string(a.message.Raw), `"protocolVersion"`) &&
				!strings.Contains(string(a.message.Raw), unknownRevision)
		},
	}})
	a, err := p.post(ctx, initialize(string(r)))
	if err != nil || a.message == nil || a.message.Err != nil {
		e.report("session", Problem, "answer initialize with a result, as JSON or as an event stream",
			"initialize in %s gets no result", r)
		return
	}
	id := a.header.Get(headerSession)
	e.sessionID(id)
	headers := []string{headerRevision, string(r)}
	if id != "" {
		headers = append(headers, headerSession, id)
	}
	rules := []rule{{
		check: "session", does: "accepts notifications with status 202 and no body", level: Warning,
		fix:   "answer a notification with status 202 and an empty body",
		send:  func() (*answer, error) { return p.post(ctx, initialized, headers...) },
		obeys: func(a *answer) bool { return a.status == http.StatusAccepted && a.empty },
	}, {
		check: "stream", does: "answers GET with an event stream, or with status 405", level: Warning,
		fix: "open an event stream, or answer with status 405 if the server sends nothing on its own",
		send: func() (*answer, error) {
			return p.send(ctx, http.MethodGet, "", append(headers, "Accept", contentEvents)...)
		},
		obeys: func(a *answer) bool {
			return a.status == http.StatusOK && a.media == contentEvents || a.status == http.StatusMethodNotAllowed
		},
	}}
	if r >= mcp.V20250618 {
		rules = append(rules, rule{
			check: "headers", does: "rejects an unknown MCP-Protocol-Version with status 400", level: Warning,
			fix: "check the header MCP-Protocol-Version (transports, Protocol Version Header)",
			send: func() (*answer, error) {
				return p.post(ctx, pingMessage, append(headers, headerRevision, unknownRevision)...)
			},
			obeys: func(a *answer) bool { return a.status == http.StatusBadRequest },
		})
	}
	if id != "" {
		rules = append(rules, p.sessionRules(ctx, r, headers)...)
	}
	e.apply(ctx, rules)
}

// sessionRules are the rules for servers that keep sessions. The last ones end the session of headers.
func (p *prober) sessionRules(ctx context.Context, r mcp.Revision, headers []string) []rule {
	ended := false
	return []rule{{
		check: "session", does: "rejects requests without a session with status 400", level: Warning,
		fix:   "require the header Mcp-Session-Id after initialize",
		send:  func() (*answer, error) { return p.post(ctx, pingMessage, headerRevision, string(r)) },
		obeys: func(a *answer) bool { return a.status == http.StatusBadRequest },
	}, {
		check: "session", does: "rejects an unknown session with status 404", level: Problem,
		fix: "answer with status 404, so that clients begin a new session after a restart of the server",
		send: func() (*answer, error) {
			return p.post(ctx, pingMessage, append(headers, headerSession, "doctor-unknown-session")...)
		},
		obeys: func(a *answer) bool { return a.status == http.StatusNotFound },
	}, {
		check: "session", does: "ends a session on DELETE, or answers with status 405", level: Warning,
		fix: "support DELETE, so that clients can end their sessions",
		send: func() (*answer, error) {
			a, err := p.send(ctx, http.MethodDelete, "", headers...)
			ended = err == nil && a.status < 300
			return a, err
		},
		obeys: func(a *answer) bool { return a.status < 300 || a.status == http.StatusMethodNotAllowed },
	}, {
		check: "session", does: "rejects requests of a session that has ended with status 404", level: Warning,
		fix:   "forget a session when its client has ended it",
		send:  func() (*answer, error) { return p.post(ctx, pingMessage, headers...) },
		obeys: func(a *answer) bool { return !ended || a.status == http.StatusNotFound },
	}}
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

// sessionID examines the id of a session.
func (e *Examination) sessionID(id string) {
	visible := strings.IndexFunc(id, func(r rune) bool { return r < 0x21 || r > 0x7E }) < 0
	switch {
	case id == "":
		e.report("session", Note, "", "keeps no sessions")
	case !visible:
		e.report("session", Problem, "use visible ASCII characters only",
			"the session id has characters that are not allowed")
	case len(id) < minSessionID:
		e.report("session", Warning, "use at least 128 random bits",
			"the session id has %d characters only, so it can be guessed", len(id))
	default:
		e.report("session", OK, "", "begins sessions with ids of %d characters", len(id))
	}
}

// prober sends single HTTP requests to an endpoint, with the credentials of the target.
type prober struct {
	target *client.HTTPTarget
	auth   client.Authorizer // nil: none
	base   http.RoundTripper // nil: http.DefaultTransport
}

func (e *Examination) newProber(target *client.HTTPTarget) *prober {
	p := &prober{target: target, auth: e.Dialer.Auth, base: client.NewTransport()}
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
	return p.send(ctx, http.MethodPost, message,
		append([]string{"Content-Type", contentJSON, "Accept", contentJSON + ", " + contentEvents}, headers...)...)
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
	transport := &recording.Transport{Base: p.base, Report: func(e recording.Event) {
		if e.From == recording.Server && len(e.Message) > 0 {
			a.empty = false
			if m, err := jsonrpc.Parse(bytes.TrimSpace(bytes.Clone(e.Message)), jsonrpc.Limits{}); err == nil &&
				m.Kind == jsonrpc.Response && a.message == nil {
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
