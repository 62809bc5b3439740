package gateway_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// oldServer is a server of 2025-11-25 that can list tools which server.Server rejects:
// names with spaces, invalid schemas, the same tool twice.
type oldServer struct{ tools []mcp.Tool }

// start serves until the test ends.
func (o *oldServer) start(t *testing.T, name string) host.ServerConfig {
	near, far := transport.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			raw, err := far.Read(context.Background())
			if err != nil {
				return
			}
			m, err := jsonrpc.Parse(raw, jsonrpc.Limits{})
			if err != nil || m.Kind != jsonrpc.Request {
				continue
			}
			if err := far.Write(context.Background(), o.answer(&m)); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		far.Close()
		<-done
	})
	return host.ServerConfig{Name: name, Target: client.Conn(near)}
}

func (o *oldServer) answer(m *jsonrpc.Message) []byte {
	var result any
	switch m.Method {
	case mcp.MethodInitialize:
		result = mcp.InitializeResult{
			ProtocolVersion: mcp.V20251125,
			Capabilities:    mcp.ServerCapabilities{Tools: &mcp.ToolsCapability{}},
			ServerInfo:      mcp.Implementation{Name: "old", Version: "1"},
		}
	case mcp.MethodListTools:
		result = mcp.ListToolsResult{Tools: o.tools}
	default:
		return jsonrpc.AppendError(nil, m.ID, jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "no %s", m.Method), false)
	}
	raw, err := json.Marshal(result)
	if err != nil {
		panic(err)
	}
	return jsonrpc.AppendResult(nil, m.ID, raw)
}
