package httpwire

import (
	"net/http"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/modern"
	"github.com/parley-mcp/parley/internal/rpc"
)

// setModernHeaders adds the headers that repeat parts of a modern message.
func setModernHeaders(h http.Header, out *rpc.Outgoing) {
	if out.Method == "" {
		return
	}
	h[headerMethod] = []string{out.Method}
	if out.Name != "" {
		h[headerName] = []string{encodeHeader(out.Name)}
	}
	for _, p := range out.Mirror {
		h.Set(paramPrefix+p.Name, encodeHeader(p.Text))
	}
}

// requestError returns the error of a request whose response has the status and the
// JSON-RPC error of e. With some statuses the server reports what is wrong with the
// request, and the JSON-RPC error is the server's own. With other statuses the body may
// come from a proxy, so the status remains the error.
func requestError(isModern bool, e *call.StatusError) error {
	switch {
	case e.Err == nil:
	case isModern && (e.Status == http.StatusBadRequest || e.Status == http.StatusNotFound):
		return &modern.Rejected{Err: e.Err}
	case !isModern && e.Status == http.StatusBadRequest:
		return e.Err
	}
	return e
}
