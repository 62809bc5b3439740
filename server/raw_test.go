package server_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// rawPeer is a client of 2025-11-25 that sends arbitrary params and returns the error of the response.
func rawPeer(t *testing.T, s *server.Server) func(method, params string) *jsonrpc.Error {
	t.Helper()
	near, far := transport.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.ServeConn(ctx, far) }()
	t.Cleanup(func() {
		_ = near.Close()
		cancel()
		<-done
	})
	id := 0
	send := func(message string) {
		if err := near.Write(ctx, []byte(message)); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(method, params string) *jsonrpc.Error {
		id++
		send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params))
		raw, err := near.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		m, err := jsonrpc.Parse(raw, jsonrpc.Limits{})
		if n, _ := m.ID.Int(); err != nil || m.Kind != jsonrpc.Response || n != int64(id) {
			t.Fatalf("%s is answered with %s", method, raw)
		}
		return m.Err
	}
	if err := ask("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}`); err != nil {
		t.Fatal(err)
	}
	send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return ask
}
