package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// OutputError reports a tool that succeeded, and whose structured content is not what
// the tool's output schema says. It is an [ErrInvalidResponse] too.
type OutputError struct {
	Tool   string
	Result *mcp.CallToolResult // as the server sent it
	Err    error               // what does not fit: a *schema.ValidationError, as a rule
}

// Error implements the error interface.
func (e *OutputError) Error() string {
	return fmt.Sprintf("%s: tools/call %s: the result does not fit the tool's output schema: %s", ErrInvalidResponse, e.Tool, e.Err)
}

// Unwrap returns ErrInvalidResponse and what does not fit.
func (e *OutputError) Unwrap() []error { return []error{ErrInvalidResponse, e.Err} }

// Bounds on the output schemas that are known. Beyond them all are forgotten, until
// the tools are listed again.
const (
	maxOutputs     = 10_000
	maxOutputBytes = 16 << 20
)

// outputs is the output schemas of the tools that were listed. Safe for concurrent use.
type outputs struct {
	mu    sync.RWMutex
	known map[string]*output
	bytes int
}

// output is one of them, which is compiled when it is first needed.
type output struct {
	raw     []byte
	learned time.Time // or found to be the same

	once     sync.Once
	compiled *schema.Schema // nil: it cannot be validated against
}

func (o *outputs) of(tool string) *output {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.known[tool]
}

// learn takes note of a listed tool.
func (o *outputs) learn(tool string, raw []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	known := o.known[tool]
	if known == nil && raw == nil {
		return
	}
	if known != nil && bytes.Equal(known.raw, raw) {
		known.learned = time.Now()
		return
	}
	if known != nil {
		o.bytes -= len(known.raw)
		delete(o.known, tool)
	}
	if raw == nil || len(raw) > maxOutputBytes {
		return
	}
	if o.known == nil || len(o.known) >= maxOutputs || o.bytes+len(raw) > maxOutputBytes {
		o.known, o.bytes = make(map[string]*output), 0
	}
	o.known[tool] = &output{raw: bytes.Clone(raw), learned: time.Now()}
	o.bytes += len(raw)
}

// isOld reports whether a schema may have changed since the tools were listed.
func (o *outputs) isOld(x *output) bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return time.Since(x.learned) >= oldOutput
}

// oldOutput is how old a schema is for a result that does not fit to have the tools be
// listed anew: no more often than that, whatever the tool returns.
const oldOutput = time.Minute

// checkOutput holds the result of a tool against the schema that it was listed with.
func (c *Client) checkOutput(ctx context.Context, tool string, result *mcp.CallToolResult) error {
	if c.dialer.SkipOutputValidation || result.IsError {
		return nil
	}
	listed := c.outputs.of(tool)
	err := c.fits(tool, listed, result)
	if err == nil {
		return nil
	}
	if c.outputs.isOld(listed) && c.find(ctx, tool) { // the tool may be another one by now
		err = c.fits(tool, c.outputs.of(tool), result)
	}
	if err != nil {
		return &OutputError{Tool: tool, Result: result, Err: err}
	}
	return nil
}

var errNoOutput = errors.New("there is no structured content")

// fits holds a result against a schema, if there is one.
func (c *Client) fits(tool string, listed *output, result *mcp.CallToolResult) error {
	if listed == nil {
		return nil
	}
	listed.once.Do(func() {
		compiled, err := schema.Compile(listed.raw)
		if err != nil {
			c.dialer.Logger.Warn("results of a tool are not validated: its output schema is of no use", "server", c.target.String(), "tool", tool, "error", err)
			return
		}
		listed.compiled = compiled
	})
	switch {
	case listed.compiled == nil:
		return nil
	case result.StructuredContent == nil:
		return errNoOutput
	}
	err := listed.compiled.Validate(result.StructuredContent)
	if errors.Is(err, schema.ErrTooSlow) || errors.Is(err, schema.ErrLimit) { // it may fit
		c.dialer.Logger.Warn("the result of a tool is not validated", "server", c.target.String(), "tool", tool, "error", err)
		return nil
	}
	return err
}

// find lists the server's tools anew, up to the one that is asked for, and reports
// whether it is among them.
func (c *Client) find(ctx context.Context, tool string) bool {
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
