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

// Over HTTP, 2026-07-28 wants the parameters that a tool's schema marks with
// x-mcp-header repeated in headers (basic/transports/streamable-http, Custom Headers
// from Tool Parameters). Which they are is known of tools that have been listed. One
// that has not is called as if it had none: a server that wants headers refuses the
// call before it acts on it, and only then its tools are listed, and the tool is called
// once more. So nobody pays for a list that is not needed.

// maxMarked bounds the tools that are known to have marked parameters. Beyond it all
// are forgotten; a refused call makes up for that.
const maxMarked = 10_000

// marked is the marked parameters of tools, by the tools' names. Safe for concurrent use.
type marked struct {
	mu     sync.RWMutex
	params map[string][]schema.HeaderParam // only of tools that have any
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
	if m.params == nil || len(m.params) >= maxMarked {
		m.params = make(map[string][]schema.HeaderParam)
	}
	m.params[tool] = params
}

// mirrors reports whether the server wants parameters repeated.
func (c *Client) mirrors() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last.mirrors
}

// usable notes what listed tools return and which of their parameters are marked, and
// leaves out the tools whose marks cannot be followed: the protocol wants them not to be
// offered.
func (c *Client) usable(tools []mcp.Tool) []mcp.Tool {
	if !c.dialer.SkipOutputValidation && c.Revision() >= mcp.V20250618 {
		for i := range tools {
			c.outputs.learn(tools[i].Name, tools[i].OutputSchema)
		}
	}
	if !c.mirrors() {
		return tools
	}
	return slices.DeleteFunc(tools, func(t mcp.Tool) bool {
		params, err := markedParams(t.InputSchema)
		var invalid *schema.HeaderError
		if errors.As(err, &invalid) {
			c.dialer.Logger.Warn("a tool is left out: its parameters cannot be sent in headers", "server", c.target.String(), "tool", t.Name, "error", err)
			params = nil
		}
		c.marked.learn(t.Name, params)
		return invalid != nil
	})
}

// markedParams reads the marks out of a schema. Few schemas have any, which shows at
// a glance: an escape could hide the keyword.
func markedParams(input []byte) ([]schema.HeaderParam, error) {
	if !bytes.Contains(input, []byte("x-mcp-header")) && !bytes.Contains(input, []byte(`\u`)) {
		return nil, nil
	}
	return schema.Headers(input)
}

// mirror returns what a call of a tool repeats of its params, as far as is known.
func (c *Client) mirror(tool string, params []byte) ([]rpc.MirroredParam, error) {
	marks := c.marked.of(tool)
	if marks == nil {
		return nil, nil
	}
	arguments, _ := jsonrpc.Get(params, "arguments")
	return rpc.MirrorParams(marks, arguments)
}

// mirrorAnew lists the server's tools because a call was refused that repeated sent,
// and returns what it has to repeat instead; ok is false if that is the same.
func (c *Client) mirrorAnew(ctx context.Context, tool string, params []byte, sent []rpc.MirroredParam) (now []rpc.MirroredParam, ok bool) {
	if !c.find(ctx, tool) {
		return nil, false
	}
	now, err := c.mirror(tool, params)
	return now, err == nil && !slices.Equal(now, sent)
}

// isHeaderMismatch reports whether a server has refused a request for its headers.
func isHeaderMismatch(err error) bool {
	var reported *jsonrpc.Error
	return errors.As(err, &reported) && reported.Code == mcp.CodeHeaderMismatch
}
