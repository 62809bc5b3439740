package revision

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Era is a family of revisions that share a way to carry state.
type Era uint8

// The eras.
const (
	Legacy Era = iota // 2024-11-05 to 2025-11-25: a handshake begins a session
	Modern            // 2026-07-28: every request carries its own metadata
)

// String returns the name of the era.
func (e Era) String() string {
	if e == Modern {
		return "modern"
	}
	return "legacy"
}

// HeaderVersion is the name of the header that carries the revision over HTTP, in
// canonical form.
const HeaderVersion = "Mcp-Protocol-Version"

// Input is the input of [Classify].
type Input struct {
	// Message is the message. It is nil for a batch, for a message that cannot be
	// parsed, and for a request without a body.
	Message *jsonrpc.Message
	// HTTP reports whether the message arrived over HTTP, where a modern message must
	// carry the header.
	HTTP bool
	// Header contains the values of the MCP-Protocol-Version header, as they were sent.
	Header []string
	// Session reports whether the message names a session by Mcp-Session-Id.
	Session bool
	// Agreed is the revision of the connection's session. It is empty before the
	// handshake, and where the session is not yet known.
	Agreed mcp.Revision
}

// Class is the result of [Classify].
type Class struct {
	Era Era
	// Revision is the revision that a modern message declares, or that a legacy session
	// has agreed on. It is empty before a handshake, and may be unknown if Fault is set.
	Revision mcp.Revision
	Fault    *Fault   // what is wrong with the declared revision; nil: nothing
	Metadata Metadata // metadata of a modern message
}

// Metadata contains the entries of a message's _meta that the protocol defines, as JSON. They are
// views of the message. An entry that the message lacks is nil.
type Metadata struct {
	Version, ClientInfo, ClientCapabilities, ProgressToken, LogLevel []byte
}

// FaultKind distinguishes the faults of a message's declared revision.
type FaultKind uint8

// The faults, in the order in which they are found.
const (
	// HeaderMissing: the message is modern, arrived over HTTP, and has no header.
	HeaderMissing FaultKind = iota + 1
	// HeaderRepeated: the header occurs more than once.
	HeaderRepeated
	// HeaderMismatch: the header and the body declare different revisions.
	HeaderMismatch
	// Unsupported: the revision is unknown, or does not belong to the message's era.
	Unsupported
)

// Fault describes what is wrong with a message's declared revision.
type Fault struct {
	Kind   FaultKind
	Header string // the revision in the header; empty: none
	Body   string // the revision in the body; empty: none
}

// Classify decides the era of a message. No other code does. It is a pure function.
//
// A message is modern if its body declares a revision in _meta, or if the header names
// a modern revision. Without headers, server/discover is modern, too, because only
// that era has it. Over HTTP, a message outside of a session whose header names an
// unknown revision is modern, so that its sender receives the error that lists the
// supported revisions. Every other message is legacy.
func Classify(in Input) Class {
	var header, body mcp.Revision
	if len(in.Header) > 0 {
		header = mcp.Revision(strings.Trim(in.Header[0], " \t"))
	}
	var meta Metadata
	if in.Message != nil {
		meta.read(in.Message)
	}
	switch m := in.Message; {
	case meta.Version != nil, isModern(header):
	case m != nil && in.HTTP && header != "" && !header.Known() && !in.Session:
	case m != nil && !in.HTTP && m.Method == mcp.MethodDiscover:
	default:
		c := Class{Era: Legacy, Revision: cmp.Or(in.Agreed, header)}
		switch {
		case len(in.Header) > 1:
			c.Fault = &Fault{Kind: HeaderRepeated}
		case len(in.Header) == 1 && !header.Known():
			c.Fault = &Fault{Kind: Unsupported, Header: string(header)}
		}
		return c
	}
	c := Class{Era: Modern, Revision: header, Metadata: meta}
	declared := len(meta.Version) > 0 && meta.Version[0] == '"' // another type declares no revision
	if declared {
		body = mcp.Revision(jsonrpc.Unquote(meta.Version))
		c.Revision = body
	}
	switch {
	case in.HTTP && len(in.Header) == 0:
		c.Fault = &Fault{Kind: HeaderMissing}
	case len(in.Header) > 1:
		c.Fault = &Fault{Kind: HeaderRepeated}
	case in.HTTP && declared && header != body:
		c.Fault = &Fault{HeaderMismatch, string(header), string(body)}
	case !isModern(c.Revision):
		c.Fault = &Fault{Unsupported, string(header), string(body)}
	}
	return c
}

// isModern reports whether r is a known revision of the modern era.
func isModern(r mcp.Revision) bool { return r.Modern() && r.Known() }

// read reads the _meta of a message.
func (md *Metadata) read(m *jsonrpc.Message) {
	meta, _ := m.Params.Get("_meta")
	for name, value := range jsonrpc.All(meta) {
		if string(value) == "null" { // null counts as absent, as in Members.Get
			continue
		}
		switch name {
		case mcp.MetaProtocolVersion:
			md.Version = value
		case mcp.MetaClientInfo:
			md.ClientInfo = value
		case mcp.MetaClientCapabilities:
			md.ClientCapabilities = value
		case mcp.MetaProgressToken:
			md.ProgressToken = value
		case mcp.MetaLogLevel:
			md.LogLevel = value
		}
	}
}

// Wire returns the JSON-RPC error that reports the fault of a modern message.
func (f *Fault) Wire() *jsonrpc.Error {
	switch f.Kind {
	case HeaderMissing:
		return jsonrpc.Errorf(mcp.CodeHeaderMismatch, "header mismatch: the %s header is required", HeaderVersion)
	case HeaderRepeated:
		return jsonrpc.Errorf(mcp.CodeHeaderMismatch, "header mismatch: the %s header must occur once", HeaderVersion)
	case HeaderMismatch:
		return jsonrpc.Errorf(mcp.CodeHeaderMismatch,
			"header mismatch: the %s header %.100q must equal the protocol version %.100q in _meta", HeaderVersion,
			f.Header, f.Body)
	}
	requested := f.Body
	if requested == "" {
		requested = f.Header
	}
	return UnsupportedError(requested)
}

// Negotiate returns the revision with which a server answers an initialize request that
// offers a revision: the offered one if it is a known legacy revision, otherwise the newest
// legacy revision (2025-11-25, basic/lifecycle, Version Negotiation).
func Negotiate(offered mcp.Revision) mcp.Revision {
	if offered.Known() && !offered.Modern() {
		return offered
	}
	return mcp.LatestLegacy
}

// Choose returns the newest known revision of a server's list. It reports false if there is
// none.
func Choose(supported []string) (mcp.Revision, bool) {
	for _, r := range mcp.Revisions() {
		for _, s := range supported {
			if string(r) == s {
				return r, true
			}
		}
	}
	return "", false
}

// IsModernError reports whether only modern servers use an error code. A client that
// receives such a code must not fall back to the handshake (2026-07-28, basic/versioning).
func IsModernError(code int64) bool {
	return code == mcp.CodeHeaderMismatch || code == mcp.CodeMissingCapability || code == mcp.CodeUnsupportedVersion
}

// Supported returns the revisions that a server of this library serves, newest first.
func Supported() []string {
	var all []string
	for _, r := range mcp.Revisions() {
		all = append(all, string(r))
	}
	return all
}

// UnsupportedError returns the error for a modern message in a revision that the server
// does not serve. Its data lists the supported revisions, including legacy ones, so
// that the client can choose one (2026-07-28, basic/versioning).
func UnsupportedError(requested string) *jsonrpc.Error {
	data := mcp.UnsupportedVersionData{Supported: Supported(), Requested: requested}
	raw, _ := json.Marshal(data) // strings cannot fail to encode
	return &jsonrpc.Error{Code: mcp.CodeUnsupportedVersion, Message: "unsupported protocol version", Data: raw}
}
