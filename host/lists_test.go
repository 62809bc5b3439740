package host_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/transport"
)

// scripted returns a server of 2025-06-18 with tools and prompts whose lists are the
// given results.
func scripted(t *testing.T, name, tools, prompts string) host.ServerConfig {
	near, far := transport.Pipe()
	done := make(chan struct{})
	results := map[string]string{
		"initialize": `{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"prompts":{}},"serverInfo":{"name":"s","version":"1"}}`,
		"tools/list": tools, "prompts/list": prompts,
		"tools/call": `{"content":[{"type":"text","text":"called"}]}`,
	}
	go func() {
		defer close(done)
		for {
			line, err := far.Read(context.Background())
			if err != nil {
				return
			}
			m, err := jsonrpc.Parse(line, jsonrpc.Limits{})
			switch result, ok := results[m.Method]; {
			case err != nil || m.Kind != jsonrpc.Request:
			case ok:
				_ = far.Write(context.Background(), jsonrpc.AppendResult(nil, m.ID, []byte(result)))
			default:
				_ = far.Write(context.Background(), jsonrpc.AppendError(nil, m.ID, jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "no"), false))
			}
		}
	}()
	t.Cleanup(func() {
		far.Close()
		<-done
	})
	return host.ServerConfig{Name: name, Target: client.Conn(near)}
}

// A server with a list that has no end, or that cannot be decoded, is degraded, not down.
func TestServerWithIncompleteListIsReady(t *testing.T) {
	const tools = `{"tools":[{"name":"a","inputSchema":{}}]}`
	for name, test := range map[string]struct {
		tools, prompts string
		reason         string
	}{
		"tools without end":   {`{"tools":[{"name":"a","inputSchema":{}}],"nextCursor":"x"}`, `{"prompts":[{"name":"p"}]}`, "tools/list"},
		"prompts without end": {tools, `{"prompts":[{"name":"p"}],"nextCursor":"x"}`, "prompts/list"},
		"invalid prompts":     {tools, `{"prompts":7}`, "prompts/list"},
		"complete":            {tools, `{"prompts":[{"name":"p"}]}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t, &host.Host{Servers: []host.ServerConfig{scripted(t, "s", test.tools, test.prompts)}})
			if err := h.WaitReady(t.Context()); err != nil {
				t.Fatal(err)
			}
			status := h.Status()[0]
			if len(status.Tools) != 1 || status.Err != nil {
				t.Errorf("status: %+v", status)
			}
			if test.reason == "" && status.Incomplete != nil ||
				test.reason != "" && (!errors.Is(status.Incomplete, client.ErrInvalidResponse) || !strings.Contains(status.Incomplete.Error(), test.reason)) {
				t.Errorf("incomplete: %v, want %q", status.Incomplete, test.reason)
			}
			if _, err := h.Call(t.Context(), "s__a", nil); err != nil {
				t.Error(err)
			}
		})
	}
}
