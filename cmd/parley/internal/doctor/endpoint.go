package doctor

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/httpurl"
	"github.com/parley-mcp/parley/mcp"
)

// rule is a rule for HTTP endpoints.
type rule struct {
	check string // the check of the finding
	does  string // what a server does that obeys the rule, such as "rejects a header …"
	level Level  // of the finding if the server does not
	fix   string
	send  func() (*answer, error)
	obeys func(a *answer) bool
}

// endpoint examines an HTTP endpoint by the rules of the revisions that it supports.
func (e *Examination) endpoint(ctx context.Context, target *client.HTTPTarget, supported []mcp.Revision) {
	p := e.newProber(target)
	if slices.Contains(supported, mcp.V20260728) {
		e.apply(ctx, p.stateless(ctx))
	}
	for _, r := range supported {
		if r >= mcp.V20250326 && r < mcp.V20260728 { // Streamable HTTP with sessions
			e.session(ctx, p, r)
			return
		}
	}
}

// apply checks rules and reports the findings.
func (e *Examination) apply(ctx context.Context, rules []rule) {
	for _, r := range rules {
		a, err := r.send()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			e.report(r.check, Problem, "answer every request within seconds", "a client cannot find out whether the server %s: %s", r.does, e.text(err))
		case r.obeys(a):
			e.report(r.check, OK, "", "%s", r.does)
		default:
			e.report(r.check, r.level, r.fix, "does not do this: %s; it answers with status %d%s", r.does, a.status, a.errorText())
		}
	}
}

// errorText describes the error in an answer.
func (a *answer) errorText() string {
	switch {
	case a.message == nil:
		return " and no JSON-RPC response"
	case a.message.Err == nil:
		return " and a result"
	}
	return " and the error " + a.message.Err.Error()
}

// originRules are the rules about the headers Origin and Host, which protect against DNS rebinding (2025-11-25,
// basic/transports, Security Warning). Post sends a request that the server accepts, with more headers.
func (p *prober) originRules(post func(headers ...string) (*answer, error)) []rule {
	rejects := func(a *answer) bool { return a.status == http.StatusForbidden }
	level := Warning
	u, err := url.Parse(p.target.URL)
	local := err == nil && httpurl.IsLoopback(u.Hostname())
	if local {
		level = Problem // every web page in the user's browser can reach it
	}
	rules := []rule{{
		check: "origin", does: "rejects requests of web pages of other origins with status 403", level: level,
		fix:   "compare the header Origin with the origins that you allow",
		send:  func() (*answer, error) { return post("Origin", "http://doctor.invalid") },
		obeys: rejects,
	}}
	if local {
		rules = append(rules, rule{
			check: "origin", does: "rejects requests for another host", level: Warning,
			fix:   "compare the header Host with the names of the server, so that a web page cannot reach it by DNS rebinding",
			send:  func() (*answer, error) { return post("Host", "doctor.invalid") },
			obeys: func(a *answer) bool { return a.status >= 400 && a.status < 500 },
		})
	}
	return rules
}

const (
	unknownRevision = "1900-01-01"
	unknownMethod   = "doctor/unknown"
	statelessMeta   = `"_meta":{"io.modelcontextprotocol/protocolVersion":"VERSION","io.modelcontextprotocol/clientInfo":{"name":"parley doctor","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
)

// stateless returns the rules of 2026-07-28 (basic/transports/streamable-http).
func (p *prober) stateless(ctx context.Context) []rule {
	discover := func(header, version, method, named string) func(more ...string) (*answer, error) {
		return func(more ...string) (*answer, error) {
			body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + statelessMetaOf(version) + `}}`
			return p.post(ctx, body, append([]string{headerRevision, header, headerMethod, named}, more...)...)
		}
	}
	const current = string(mcp.V20260728)
	valid := discover(current, current, mcp.MethodDiscover, mcp.MethodDiscover)
	once := func(send func(...string) (*answer, error)) func() (*answer, error) {
		return func() (*answer, error) { return send() }
	}
	isError := func(status int, code int64) func(*answer) bool {
		return func(a *answer) bool { return a.status == status && a.failed(code) }
	}
	return append(p.originRules(valid),
		rule{
			check: "headers", does: "rejects a header Mcp-Method that differs from the message with status 400 and code -32020", level: Warning,
			fix:   "compare the headers with the message (2026-07-28, Streamable HTTP, Server Validation)",
			send:  once(discover(current, current, mcp.MethodDiscover, mcp.MethodListTools)),
			obeys: isError(http.StatusBadRequest, mcp.CodeHeaderMismatch),
		},
		rule{
			check: "headers", does: "rejects a header MCP-Protocol-Version that differs from the message with status 400 and code -32020", level: Warning,
			fix:   "compare the headers with the message (2026-07-28, Streamable HTTP, Protocol Version Header)",
			send:  once(discover(string(mcp.V20251125), current, mcp.MethodDiscover, mcp.MethodDiscover)),
			obeys: isError(http.StatusBadRequest, mcp.CodeHeaderMismatch),
		},
		rule{
			check: "revisions", does: "rejects an unknown revision with status 400, code -32022 and the revisions that it supports", level: Warning,
			fix:   "name the supported revisions in the error, so that clients can choose one (2026-07-28, Versioning)",
			send:  once(discover(unknownRevision, unknownRevision, mcp.MethodDiscover, mcp.MethodDiscover)),
			obeys: isError(http.StatusBadRequest, mcp.CodeUnsupportedVersion),
		},
		rule{
			check: "methods", does: "rejects an unknown method with status 404 and code -32601", level: Warning,
			fix:   "answer unknown methods with a JSON-RPC error; with another status clients take the server for one of an older revision",
			send:  once(discover(current, current, unknownMethod, unknownMethod)),
			obeys: isError(http.StatusNotFound, codeMethodNotFound),
		},
	)
}
