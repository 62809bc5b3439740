package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Extension is an addition to the protocol that a server supports (2026-07-28,
// basic/versioning, Extension Negotiation). Clients are told of it in the server's
// capabilities; in the revisions before as an experimental capability, too. Those that declare it, too, may use its methods: in 2026-07-28 each
// request has to, in a session the handshake.
type Extension struct {
	// ID names the extension, with the prefix of whoever has defined it:
	// "com.example/jobs". See mcp.CheckExtensionID.
	ID string
	// Settings are what the extension says clients are told. They encode to a JSON
	// object; nil is the empty one.
	Settings any
	// Requests serve the extension's requests, by method. A method's name is not one of
	// the protocol's, unless the extension is the official one that the name belongs to.
	Requests map[string]ExtensionRequest
	// Notifications take the extension's notifications from clients, by method, which
	// begins with "notifications/".
	Notifications map[string]ExtensionNotification
}

// ExtensionRequest serves a request of an extension. Params are the JSON object as the
// client has sent it, with _meta, or nil; they stay the handler's. What it returns
// encodes to a JSON object; nil is the empty one. An error, or a panic, is an internal
// error whose text stays in the log, unless it is or wraps a *jsonrpc.Error.
//
// Ctx is that of one call: [Progress], [Logger], [PrincipalOf] and [ExtensionOf] work with it,
// and [Notify] sends notifications of the extension ahead of the response.
// Questions are for tools, prompts and resources only.
type ExtensionRequest func(ctx context.Context, params json.RawMessage) (result any, err error)

// ExtensionNotification takes a notification of an extension. Nothing is answered. What
// else the client sends on the same connection waits until it returns.
type ExtensionNotification func(ctx context.Context, params json.RawMessage)

// AddExtension has the server support an extension. It panics if it cannot: if it has no
// proper ID, or a method of another extension or the protocol's. Extensions are added
// before the server serves. [Server.RegisterExtension] returns errors instead.
//
// What else an extension does is up to middleware, which sees every call and may put
// another result in the place of what is there.
func AddExtension(s *Server, e Extension) {
	if err := s.RegisterExtension(e); err != nil {
		panic("server: " + err.Error())
	}
}

// RegisterExtension has the server support an extension, as [AddExtension] does. The
// error says why it cannot.
func (s *Server) RegisterExtension(e Extension) error {
	if err := s.extensions.add(e); err != nil {
		return fmt.Errorf("extension %q: %w", e.ID, err)
	}
	return nil
}

// ExtensionOf returns the settings with which the client of the call that ctx belongs to
// has declared an extension, a JSON object, and false if it has not. A server falls back
// to what the core protocol has then, or returns the *call.CapabilityError that says
// what is missing.
func ExtensionOf(ctx context.Context, id string) (settings json.RawMessage, ok bool) {
	if c := rpc.From(ctx); c != nil {
		return c.Extension(id)
	}
	return nil, false
}

// extensions are those of a server. They are complete when it begins to serve.
type extensions struct {
	mu       sync.Mutex
	settings map[string]json.RawMessage // by ID; not modified once it serves
	handlers map[string]rpc.Handler     // by method
	serving  bool
}

var errServing = errors.New("the server serves already: add extensions before")

func (x *extensions) add(e Extension) error {
	if err := mcp.CheckExtensionID(e.ID); err != nil {
		return err
	}
	settings := json.RawMessage("{}")
	if e.Settings != nil {
		var err error
		if settings, err = json.Marshal(e.Settings); err != nil {
			return fmt.Errorf("the settings cannot be encoded: %w", err)
		}
		if settings[0] != '{' {
			return fmt.Errorf("the settings must encode to a JSON object, not %.20s", settings)
		}
	}
	handlers := make(map[string]rpc.Handler, len(e.Requests)+len(e.Notifications))
	for method, handle := range e.Requests {
		if handle == nil {
			return fmt.Errorf("%s: %w", method, errNoHandler)
		}
		if strings.HasPrefix(method, revision.NotificationPrefix) {
			return fmt.Errorf("%s: that is a name of a notification", method)
		}
		handlers[method] = ofExtension(e.ID, true, func(ctx context.Context, c *rpc.Call) (any, error) {
			result, err := handle(ctx, c.Params().Raw())
			if err != nil {
				return nil, err
			}
			if result == nil {
				result = &mcp.EmptyResult{}
			}
			return result, nil
		})
	}
	for method, handle := range e.Notifications {
		if handle == nil {
			return fmt.Errorf("%s: %w", method, errNoHandler)
		}
		if !strings.HasPrefix(method, revision.NotificationPrefix) {
			return fmt.Errorf("%s: a notification's name begins with %s", method, revision.NotificationPrefix)
		}
		handlers[method] = ofExtension(e.ID, false, func(ctx context.Context, c *rpc.Call) (any, error) {
			handle(ctx, c.Params().Raw())
			return &mcp.EmptyResult{}, nil
		})
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.serving {
		return errServing
	}
	if _, taken := x.settings[e.ID]; taken {
		return errors.New("it is there already")
	}
	for method := range handlers {
		if err := revision.CheckExtensionMethod(method, e.ID); err != nil {
			return err
		}
		if _, taken := x.handlers[method]; taken {
			return fmt.Errorf("the method %s is another extension's", method)
		}
	}
	if x.settings == nil {
		x.settings, x.handlers = make(map[string]json.RawMessage), make(map[string]rpc.Handler)
	}
	x.settings[e.ID] = settings
	maps.Copy(x.handlers, handlers)
	return nil
}

// ofExtension keeps a handler to clients that have declared its extension. In sessions
// there is no error of its own for those that have not: the method is none to them.
func ofExtension(id string, request bool, handle rpc.Handler) rpc.Handler {
	return func(ctx context.Context, c *rpc.Call) (any, error) {
		if request == c.ID().IsZero() {
			return methodNotFound(c)
		}
		_, declared := c.Extension(id)
		switch {
		case declared:
			return handle(ctx, c)
		case c.Revision().Modern():
			return nil, &call.CapabilityError{Required: mcp.ClientCapabilities{
				Extensions: map[string]json.RawMessage{id: json.RawMessage("{}")},
			}}
		}
		return nil, jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "method %q is for clients that declare %s", c.Method(), id)
	}
}

// serve returns the handlers, and lets no more extensions in.
func (x *extensions) serve() map[string]rpc.Handler {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.serving = true
	return x.handlers
}

// declared is what clients are told. It is never modified.
func (x *extensions) declared() map[string]json.RawMessage {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.settings
}
