package gateway_test

import (
	"context"
	"encoding/json"
	"strings"
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
	raw, err := json.Marshal(mcp.ListToolsResult{Tools: o.tools})
	if err != nil {
		t.Fatal(err)
	}
	return upstream{mcp.MethodListTools: string(raw)}.start(t, name)
}

// upstream is a server of 2025-11-25 that answers requests with results as they are, by
// method. After "error " comes an error.
type upstream map[string]string

// start serves until the test ends.
func (u upstream) start(t *testing.T, name string) host.ServerConfig {
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
			if err := far.Write(context.Background(), u.answer(&m)); err != nil {
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

func (u upstream) answer(m *jsonrpc.Message) []byte {
	result, ok := u[m.Method]
	if !ok && m.Method == mcp.MethodInitialize {
		result, ok = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{},"prompts":{},"completions":{}},"serverInfo":{"name":"old","version":"1"}}`, true
	}
	if !ok {
		return jsonrpc.AppendError(nil, m.ID, jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "no %s", m.Method), false)
	}
	if text, failed := strings.CutPrefix(result, "error "); failed {
		var e jsonrpc.Error
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			panic(err)
		}
		return jsonrpc.AppendError(nil, m.ID, &e, false)
	}
	return jsonrpc.AppendResult(nil, m.ID, []byte(result))
}
