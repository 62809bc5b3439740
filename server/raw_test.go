package server_test

import (
	"fmt"
	"testing"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/server"
)

// rawPeer is a client of 2025-11-25 that sends arbitrary params and returns the error of the response.
func rawPeer(t *testing.T, s *server.Server) func(method, params string) *jsonrpc.Error {
	l := connectLine(t, s)
	l.Handshake("2025-11-25")
	return func(method, params string) *jsonrpc.Error {
		t.Helper()
		raw := l.Ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params))
		m, err := jsonrpc.Parse([]byte(raw), jsonrpc.Limits{})
		if err != nil || m.Kind != jsonrpc.Response {
			t.Fatalf("%s is answered with %s", method, raw)
		}
		return m.Err
	}
}
