package mcptest_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/parley-mcp/parley/server"
)

// These tests send raw HTTP requests that package client does not send.

// rawEndpoint serves s until the test ends.
func rawEndpoint(t *testing.T, s *server.Server) string {
	t.Helper()
	endpoint := httptest.NewServer(s)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.Shutdown(ctx)
		endpoint.CloseClientConnections()
		endpoint.Close()
	})
	return endpoint.URL
}

// rawModern returns a request of 2026-07-28. params must end with a comma or be empty.
func rawModern(method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":"r1","method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, method, params)
}
