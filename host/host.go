package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

// Server is one server of a Host.
type Server struct {
	// Name is unique in its Host; see [CheckName].
	Name   string
	Target client.Target
}

// Host keeps clients to a set of servers. Its fields are set before Start and not
// changed after it; its methods are safe for concurrent use.
type Host struct {
	Servers []Server

	// Dialer is how each server is dialled. Its OnLost and Trace are the Host's own.
	Dialer client.Dialer

	// Trace, if set, is client.Dialer.Trace for all servers, and is told which one.
	Trace func(server string, sent bool, message []byte)

	// Logger takes what becomes of the servers; nil: slog.Default().
	Logger *slog.Logger

	once    sync.Once
	members []*member
	byName  map[string]*member
	news    bulletin

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup
}

var (
	// ErrUnknownServer is returned for a name that no server of the Host has.
	ErrUnknownServer = errors.New("host: no server of this name")
	// ErrClosed is returned by a Host that was closed, or not started.
	ErrClosed = errors.New("host: not running")
)

// maxName bounds a server's name, which has to leave room for the names of tools
// beside it.
const maxName = 64

// CheckName returns nil if name can be a server's: 1 to 64 letters, digits, hyphens
// and underscores of ASCII, without two underscores in a row, which separate a
// server's name from its tool's where both are one name.
func CheckName(name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("server name %.80q: use 1 to %d characters", name, maxName)
	}
	for _, c := range []byte(name) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
			return fmt.Errorf("server name %q: use letters, digits, - and _ only", name)
		}
	}
	if strings.Contains(name, "__") {
		return fmt.Errorf("server name %q: leave out the double underscore, which separates servers from tools", name)
	}
	return nil
}

// Start begins to start and dial all servers, and returns without waiting for them.
// Its errors are about the Host's fields. A Host starts once.
func (h *Host) Start() error {
	err := errors.New("host: started already")
	h.once.Do(func() { err = h.start() })
	return err
}

func (h *Host) start() error {
	byName := make(map[string]*member, len(h.Servers))
	for _, s := range h.Servers {
		if err := CheckName(s.Name); err != nil {
			return fmt.Errorf("host: %w", err)
		}
		if byName[s.Name] != nil {
			return fmt.Errorf("host: server name %q is given twice: rename one", s.Name)
		}
		if s.Target == nil {
			return fmt.Errorf("host: server %q has no target", s.Name)
		}
		m := newMember(h, s)
		byName[s.Name] = m
		h.members = append(h.members, m)
	}
	h.byName = byName
	h.ctx, h.cancel = context.WithCancel(context.Background())
	for _, m := range h.members {
		h.running.Go(func() { m.run(h.ctx) })
	}
	return nil
}

// Close closes all clients, at the same time: calls in flight fail, sessions end,
// child processes exit within five seconds. It may be called more than once and
// concurrently.
func (h *Host) Close() error {
	h.once.Do(func() { h.ctx, h.cancel = context.WithCancel(context.Background()) })
	if h.cancel == nil { // Start has failed
		return nil
	}
	h.cancel()
	h.running.Wait()
	var errs []error
	for _, m := range h.members {
		errs = append(errs, m.closeErr)
	}
	return errors.Join(errs...)
}

// CallTool calls a tool of a server as client.Client.CallTool does. If the server
// is starting it waits, if the server is down it has it started again; a *DownError
// says that this did not help, or was tried a moment ago.
func (h *Host) CallTool(ctx context.Context, server, tool string, arguments any, options ...client.CallOption) (*mcp.CallToolResult, error) {
	return with(ctx, h, server, func(c *client.Client) (*mcp.CallToolResult, error) {
		return c.CallTool(ctx, tool, arguments, options...)
	})
}

// ReadResource reads a resource of a server as client.Client.ReadResource does, and
// waits as CallTool does.
func (h *Host) ReadResource(ctx context.Context, server, uri string, options ...client.CallOption) (*mcp.ReadResourceResult, error) {
	return with(ctx, h, server, func(c *client.Client) (*mcp.ReadResourceResult, error) {
		return c.ReadResource(ctx, uri, options...)
	})
}

// GetPrompt has a server make a prompt as client.Client.GetPrompt does, and waits as
// CallTool does.
func (h *Host) GetPrompt(ctx context.Context, server, prompt string, arguments any, options ...client.CallOption) (*mcp.GetPromptResult, error) {
	return with(ctx, h, server, func(c *client.Client) (*mcp.GetPromptResult, error) {
		return c.GetPrompt(ctx, prompt, arguments, options...)
	})
}

// Complete asks a server for completions as client.Client.Complete does, and waits as
// CallTool does.
func (h *Host) Complete(ctx context.Context, server string, params mcp.CompleteParams) (*mcp.Completion, error) {
	return with(ctx, h, server, func(c *client.Client) (*mcp.Completion, error) {
		return c.Complete(ctx, params)
	})
}

// with uses the client to a server when it is ready, and notes if it is lost.
func with[Result any](ctx context.Context, h *Host, server string, use func(*client.Client) (*Result, error)) (*Result, error) {
	m := h.byName[server]
	if m == nil {
		return nil, fmt.Errorf("%w: %q", ErrUnknownServer, server)
	}
	c, err := m.await(ctx)
	if err != nil {
		return nil, err
	}
	result, err := use(c)
	if errors.Is(err, client.ErrConnectionLost) {
		m.lost(c, err)
	}
	return result, err
}

func (h *Host) logger() *slog.Logger {
	if h.Logger != nil {
		return h.Logger
	}
	return slog.Default()
}
