package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// maxToolName is what the protocol recommends (2026-07-28, server/tools, Tool Names).
const maxToolName = 128

// toolEntry is one tool as it is offered. It does not change.
type toolEntry struct {
	tool   mcp.Tool
	input  *schema.Schema
	output *schema.Schema // nil: structured content is not validated
	handle ToolHandler
}

// tools is the set of tools, and its lists as bytes. Lists are asked for far more
// often than they change, so each page is encoded once for each revision.
type tools struct {
	mu      sync.RWMutex
	always  bool // offered even while empty
	entries map[string]*toolEntry
	names   []string // sorted; nil when it has to be made anew
	pages   map[pageKey]revision.Encoded
}

type pageKey struct {
	revision mcp.Revision
	from     int // index into names
}

func (t *tools) add(e *toolEntry) error {
	if err := checkToolName(e.tool.Name); err != nil {
		return err
	}
	if !e.input.IsObject() {
		return errors.New(`the input schema must have "type": "object"`)
	}
	if e.handle == nil {
		return errors.New("the handler is nil")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, taken := t.entries[e.tool.Name]; taken {
		return errors.New("a tool of this name is offered already: remove it first")
	}
	if t.entries == nil {
		t.entries = make(map[string]*toolEntry)
	}
	t.entries[e.tool.Name] = e
	t.names, t.pages = nil, nil
	t.always = true
	return nil
}

func (t *tools) remove(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.entries[name]
	delete(t.entries, name)
	t.names, t.pages = nil, nil
	return ok
}

func (t *tools) offer() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.always = true
}

func (t *tools) offered() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.always
}

func (t *tools) get(name string) *toolEntry {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.entries[name]
}

func checkToolName(name string) error {
	if name == "" || len(name) > maxToolName {
		return fmt.Errorf("a tool's name has 1 to %d characters", maxToolName)
	}
	for _, c := range []byte(name) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("_-.", c) >= 0) {
			return fmt.Errorf("a tool's name has letters, digits, _ - and . only, not %q", c)
		}
	}
	return nil
}

// listTools answers tools/list.
func (s *Server) listTools(_ context.Context, c *call.Call) call.Outcome {
	if !s.tools.offered() {
		return methodNotFound(c)
	}
	after, err := cursorOf(c)
	if err != nil {
		return call.Fail(err)
	}
	page, err := s.tools.page(c.Revision, after, orDefault(s.PageSize, 1000), s.ready().http.Modern.Identity)
	if err != nil {
		return call.Fail(err)
	}
	return call.Outcome{Result: page}
}

// page returns the page of tools whose names come after a name, in the order of
// their names, which is the same on every replica and at every time.
func (t *tools) page(r mcp.Revision, after string, size int, identity []byte) (revision.Encoded, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.names == nil {
		t.names = slices.Sorted(maps.Keys(t.entries))
	}
	from := 0
	if after != "" {
		from = sort.Search(len(t.names), func(i int) bool { return t.names[i] > after })
	}
	key := pageKey{r, from}
	if page := t.pages[key]; page != nil {
		return page, nil
	}
	to := min(from+size, len(t.names))
	result := &mcp.ListToolsResult{
		CacheHints: mcp.CacheHints{TTLMs: new(int64), CacheScope: mcp.CacheScopePrivate},
		Tools:      make([]mcp.Tool, 0, to-from),
	}
	for _, name := range t.names[from:to] {
		result.Tools = append(result.Tools, t.entries[name].tool)
	}
	if to < len(t.names) {
		cursor := cursorAfter(t.names[to-1])
		result.NextCursor = &cursor
	}
	page, err := revision.AppendResult(nil, r, result, identity)
	if err != nil {
		return nil, err
	}
	// Only pages that whoever follows the cursors sees: anybody can make up others.
	if from%size == 0 {
		if t.pages == nil {
			t.pages = make(map[pageKey]revision.Encoded)
		}
		t.pages[key] = page
	}
	return page, nil
}

var callToolMembers = []string{"name", "arguments", "_meta", "task", "inputResponses", "requestState"}

// callTool answers tools/call.
func (s *Server) callTool(ctx context.Context, c *call.Call) call.Outcome {
	if !s.tools.offered() {
		return methodNotFound(c)
	}
	if name, ok := c.Params.CaseVariant(callToolMembers...); ok {
		return call.Fail(jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "params member %q differs from a known one in its case", name))
	}
	raw, _ := c.Params.Get("name")
	if len(raw) == 0 || raw[0] != '"' {
		return call.Fail(jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "params.name must be a string: the name of a tool"))
	}
	name := jsonrpc.Unquote(raw)
	entry := s.tools.get(name)
	if entry == nil {
		return call.Fail(jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "unknown tool: %.128q", name))
	}
	arguments, ok := c.Params.Get("arguments")
	switch {
	case !ok:
		arguments = []byte("{}")
	case arguments[0] != '{':
		return call.Fail(jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "params.arguments must be an object"))
	}
	// What the model got wrong goes back to the model, which can mend it
	// (2025-11-25, server/tools, Error Handling).
	if err := entry.input.Validate(arguments); err != nil {
		return call.Outcome{Result: errorResult("invalid arguments: " + err.Error())}
	}
	result, err := s.run(ctx, entry, arguments)
	if err != nil {
		if e, ok := isProtocolError(err); ok {
			return call.Fail(e)
		}
		return call.Outcome{Result: errorResult(err.Error())}
	}
	if err := entry.checkOutput(result); err != nil {
		s.logger().ErrorContext(ctx, "a tool's result does not fit its output schema", "tool", name, "error", err)
		return call.Outcome{Result: errorResult("the tool failed: its result does not fit its output schema")}
	}
	return call.Outcome{Result: result}
}

// run runs the handler. A panic becomes an error whose text tells nothing.
func (s *Server) run(ctx context.Context, entry *toolEntry, arguments json.RawMessage) (result *mcp.CallToolResult, err error) {
	defer func() {
		if v := recover(); v != nil {
			s.logger().ErrorContext(ctx, "a tool panicked", "tool", entry.tool.Name, "panic", v, "stack", string(debug.Stack()))
			result, err = nil, errors.New("the tool failed unexpectedly")
		}
	}()
	result, err = entry.handle(ctx, arguments)
	if err == nil && result == nil {
		err = errors.New("the tool returned no result")
	}
	return result, err
}

func (e *toolEntry) checkOutput(result *mcp.CallToolResult) error {
	if e.output == nil || result.IsError {
		return nil
	}
	if result.StructuredContent == nil {
		return errors.New("there is no structured content")
	}
	return e.output.Validate(result.StructuredContent)
}
