package modern

import (
	"net/http"

	"github.com/parley-mcp/parley/internal/rpc"
)

// ParamPrefix is what the names of headers begin with that mirror a tool's parameters.
const ParamPrefix = "Mcp-Param-"

// mirror is the headers of a request, as what they say of its parameters (2026-07-28,
// basic/transports/streamable-http, Custom Headers from Tool Parameters).
type mirror http.Header

var _ rpc.Mirror = mirror(nil)

// Param implements call.Mirror.
func (m mirror) Param(name string) (text string, ok bool, err error) {
	header := http.CanonicalHeaderKey(ParamPrefix + name)
	if len(m[header]) == 0 {
		return "", false, nil
	}
	value, fault := single(http.Header(m), header)
	if fault != nil {
		return "", false, fault
	}
	if text, ok = DecodeHeader(value); !ok {
		return "", false, mismatch("the %.100s header is malformed", header)
	}
	return text, true, nil
}
