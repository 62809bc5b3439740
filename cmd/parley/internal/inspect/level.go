//lint:file-ignore SA1019 Deprecated features are still supported.

package inspect

import (
	"net/http"

	"github.com/parley-mcp/parley/mcp"
)

// setLevel sets the level of the log messages of a server.
func (h *hub) setLevel(r *http.Request, in struct {
	Level mcp.LoggingLevel `json:"level"`
}) (none, error) {
	s, c, err := h.clientOf(r)
	if err != nil {
		return none{}, err
	}
	return none{}, s.explained(c.SetLogLevel(r.Context(), in.Level))
}
