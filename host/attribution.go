package host

import (
	"encoding/json"
	"maps"
	"strings"

	"github.com/parley-mcp/parley/internal/plaintext"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// MetaServer is the member of _meta with the name of the server, in requests of servers that a Host forwards.
const MetaServer = "com.github.parley-mcp/server"

// attribute returns a message of a server for a user, with the name of the server (2026-07-28,
// client/elicitation, Security Considerations):
//
//	The server "files" asks:
//
//	> Which directory?
//
// Each line of the message is quoted, so that a server cannot imitate an [Approval] or another server. Control
// characters and invisible characters are shown by code point.
//
// The message is unchanged if the Host has one server, with an empty Prefix, and no Approve. Its clients then see
// the server as if there were no Host.
func (h *Host) attribute(server, message string) string {
	if h.hidden() {
		return message
	}
	var text strings.Builder
	text.WriteString(`The server "` + plain(server) + `" asks:` + "\n")
	empty := true
	for _, line := range strings.FieldsFunc(message, isLineBreak) {
		if line = strings.TrimSpace(visible(line)); line != "" {
			text.WriteString("\n> " + line)
			empty = false
		}
	}
	if empty {
		text.WriteString("\n>")
	}
	return text.String()
}

func isLineBreak(r rune) bool {
	return r == '\n' || r == '\r' || r == '\v' || r == '\f' || r == '\u0085' || r == '\u2028' || r == '\u2029'
}

// visible is plain for texts of people: it keeps the invisible characters that join letters and emoji.
func visible(text string) string {
	return plaintext.Replace(text, func(r rune) string {
		switch r {
		case '\t':
			return " "
		case '\u200c', '\u200d':
			return string(r)
		}
		return plaintext.CodePoint(r)
	})
}

// hidden reports whether the clients of the Host see its only server as if there were no Host. A user then
// cannot take a request of the server for one of the Host or of another server.
func (h *Host) hidden() bool {
	all := h.all()
	if h.Approve != nil || len(all) != 1 {
		return false
	}
	all[0].mu.Lock()
	defer all[0].mu.Unlock()
	return all[0].naming.prefix == ""
}

// attributedMeta returns the members of _meta that are forwarded with a request of a server, and its name.
func (h *Host) attributedMeta(server string, meta mcp.Meta) mcp.Meta {
	forwarded := revision.ForwardableMeta(meta)
	if h.hidden() {
		return forwarded
	}
	attributed := mcp.Meta{}
	maps.Copy(attributed, forwarded)
	attributed[MetaServer] = json.RawMessage(jsonrpc.AppendString(nil, server))
	return attributed
}
