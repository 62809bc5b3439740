package client

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// Over HTTP, 2026-07-28 requires that a client mirrors in headers the parameters that a
// tool's schema marks with x-mcp-header (basic/transports/streamable-http, Custom Headers
// from Tool Parameters). The client learns them when it lists tools. It calls an unlisted
// tool without such headers: a server that requires them rejects the call before it acts on
// it, and the client then lists the tools and repeats the call. That way, a program that
// does not list tools sends an extra request only when one is needed.

// maxMarkedTools limits the tools whose marked parameters are remembered. When it is
// reached, all are forgotten; a rejected call restores what is needed.
const maxMarkedTools = 10_000

// marked contains the marked parameters of tools, by tool name. It is safe for concurrent use.
type marked struct {
	mu     sync.RWMutex
	params map[string][]schema.HeaderParam // only tools that have marked parameters
}

func (m *marked) of(tool string) []schema.HeaderParam {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.params[tool]
}

func (m *marked) learn(tool string, params []schema.HeaderParam) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(params) == 0 {
		delete(m.params, tool)
		return
	}
	if m.params == nil || len(m.params) >= maxMarkedTools {
		m.params = make(map[string][]schema.HeaderParam)
	}
	m.params[tool] = params
}

// mirrors reports whether the client mirrors parameters in headers.
func (c *Client) mirrors() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last.mirrors
}

// learnTools records the output schemas, marked parameters and task support of listed tools. It leaves
// out the tools that the protocol forbids to use because their marks are invalid.
func (c *Client) learnTools(tools []mcp.Tool) []mcp.Tool {
	if c.Revision() >= mcp.V20250618 {
		for i := range tools {
			c.outputs.learn(tools[i].Name, tools[i].OutputSchema)
		}
	}
	if c.choosesTasks() {
		c.supports.learn(tools)
	}
	if !c.mirrors() {
		return tools
	}
	return slices.DeleteFunc(tools, func(t mcp.Tool) bool {
		params, err := markedParams(t.InputSchema)
		var invalid *schema.HeaderError
		if errors.As(err, &invalid) {
			c.dialer.Logger.Warn("ignoring a tool with an invalid x-mcp-header", "server", c.target.String(), "tool",
				t.Name, "error", err)
			params = nil
		}
		c.marked.learn(t.Name, params)
		return invalid != nil
	})
}

// markedParams returns the marked parameters of a schema. It parses only schemas that may
// contain the keyword, plain or escaped.
func markedParams(input []byte) ([]schema.HeaderParam, error) {
	if !bytes.Contains(input, []byte("x-mcp-header")) && !bytes.Contains(input, []byte(`\u`)) {
		return nil, nil
	}
	return schema.Headers(input)
}

// mirror returns the parameters of a call that the client must mirror, as far as the client knows.
func (c *Client) mirror(tool string, params []byte) ([]rpc.MirroredParam, error) {
	marks := c.marked.of(tool)
	if marks == nil {
		return nil, nil
	}
	arguments, _ := jsonrpc.Get(params, "arguments")
	return rpc.MirrorParams(marks, arguments)
}

// mirrorAnew lists the tools after the server has rejected a call that mirrored sent, and
// returns the parameters to mirror now. changed is false if they are the same.
func (c *Client) mirrorAnew(ctx context.Context, tool string, params []byte,
	sent []rpc.MirroredParam) (now []rpc.MirroredParam, changed bool) {
	if !c.relist(ctx, tool) {
		return nil, false
	}
	now, err := c.mirror(tool, params)
	return now, err == nil && !slices.Equal(now, sent)
}

// isHeaderMismatch reports whether a server rejected a request because of its headers.
func isHeaderMismatch(err error) bool {
	reported, ok := errors.AsType[*jsonrpc.Error](err)
	return ok && reported.Code == mcp.CodeHeaderMismatch
}
