package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// OutputError reports that a tool succeeded, but that its structured content does not match the tool's output schema.
// It is also a call.ErrInvalidResponse.
type OutputError struct {
	Tool   string
	Result *mcp.CallToolResult // as the server sent it
	Err    error               // why it does not match, usually a *schema.ValidationError
}

// Error implements the error interface.
func (e *OutputError) Error() string {
	return fmt.Sprintf("%s: tools/call %s: the result does not match the tool's output schema: %s",
		call.ErrInvalidResponse, e.Tool, e.Err)
}

// Unwrap returns call.ErrInvalidResponse and e.Err.
func (e *OutputError) Unwrap() []error { return []error{call.ErrInvalidResponse, e.Err} }

// Limits on the output schemas that are remembered. When one is reached, all schemas are
// forgotten until the tools are listed again.
const (
	maxOutputs     = 10_000
	maxOutputBytes = 16 << 20
)

// outputs contains the output schemas of listed tools. It is safe for concurrent use.
type outputs struct {
	mu     sync.RWMutex
	known  map[string]*output
	bytes  int
	memory *schema.Budget // memory of the compiled schemas in known
}

// output is one output schema. It is compiled when it is first needed.
type output struct {
	raw    []byte
	listed time.Time // when the tool was last listed
	memory *schema.Budget

	once     sync.Once
	compiled *schema.Schema // nil if the schema is unusable
}

// release gives back the memory of a schema that is no longer known. It waits for a call that compiles the schema.
func (x *output) release() {
	x.once.Do(func() {})
	x.memory.Release(x.compiled)
}

func (o *outputs) of(tool string) *output {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.known[tool]
}

// learn records the output schema of a listed tool; raw is nil if it has none.
func (o *outputs) learn(tool string, raw []byte) {
	if replaced := o.replace(tool, raw); replaced != nil {
		replaced.release()
	}
}

// replace learns the schema of a tool, and returns the schema that the tool had before.
func (o *outputs) replace(tool string, raw []byte) (replaced *output) {
	o.mu.Lock()
	defer o.mu.Unlock()
	known := o.known[tool]
	if known == nil && raw == nil {
		return nil
	}
	if known != nil && bytes.Equal(known.raw, raw) {
		known.listed = time.Now()
		return nil
	}
	if known != nil {
		o.bytes -= len(known.raw)
		delete(o.known, tool)
	}
	if raw == nil || len(raw) > maxOutputBytes {
		return known
	}
	if o.known == nil || len(o.known) >= maxOutputs || o.bytes+len(raw) > maxOutputBytes {
		o.known, o.bytes, o.memory = make(map[string]*output), 0, new(schema.Budget)
	}
	o.known[tool] = &output{raw: bytes.Clone(raw), listed: time.Now(), memory: o.memory}
	o.bytes += len(raw)
	return known
}

// isOld reports whether the schema may have changed since the tool was listed.
func (o *outputs) isOld(x *output) bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return time.Since(x.listed) >= maxOutputAge
}

// maxOutputAge is the age from which a schema is fetched again when a result does not
// match it. It limits how often a tool with wrong results makes the client list the
// tools.
const maxOutputAge = time.Minute

// checkOutput validates the result of a tool against its output schema, if the tool was listed.
func (c *Client) checkOutput(ctx context.Context, tool string, result *mcp.CallToolResult) error {
	if result.IsError {
		return nil
	}
	known := c.outputs.of(tool)
	err := c.matchOutput(tool, known, result)
	if err == nil {
		return nil
	}
	if c.outputs.isOld(known) && c.relist(ctx, tool) { // the schema may have changed
		err = c.matchOutput(tool, c.outputs.of(tool), result)
	}
	if err != nil {
		return &OutputError{Tool: tool, Result: result, Err: err}
	}
	return nil
}

var errNoOutput = errors.New("the result has no structured content")

// matchOutput returns an error if the result does not match the schema. Without a usable
// schema, it accepts every result.
func (c *Client) matchOutput(tool string, known *output, result *mcp.CallToolResult) error {
	if known == nil {
		return nil
	}
	known.once.Do(func() {
		compiled, err := known.memory.Compile(known.raw)
		if err != nil {
			c.dialer.Logger.Warn("cannot validate the results of a tool: invalid output schema", "server",
				c.target.String(), "tool", tool, "error", err)
			return
		}
		if unchecked := compiled.Unchecked(); len(unchecked) > 0 { // one line, because there may be many
			c.dialer.Logger.Warn("unsupported keywords in a tool's output schema: they are not checked",
				"server", c.target.String(), "tool", tool,
				"count", len(unchecked), "first", unchecked[0].Pointer, "reason", unchecked[0].Reason)
		}
		known.compiled = compiled
	})
	switch {
	case known.compiled == nil:
		return nil
	case result.StructuredContent == nil:
		return errNoOutput
	}
	err := known.compiled.Validate(result.StructuredContent)
	if errors.Is(err, schema.ErrLimit) { // the result may be valid
		c.dialer.Logger.Warn("cannot validate the result of a tool", "server", c.target.String(), "tool", tool, "error",
			err)
		return nil
	}
	return err
}

// relist lists the server's tools again until it reaches the given one, and reports whether the tool is
// listed.
func (c *Client) relist(ctx context.Context, tool string) bool {
	for t, err := range c.Tools(ctx, WithRefresh()) {
		if err != nil {
			return false
		}
		if t.Name == tool {
			return true
		}
	}
	return false
}
