package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Extension is an extension of the protocol that a server supports (2026-07-28,
// basic/versioning, Extension Negotiation). The server declares it in its capabilities, and in
// sessions as an experimental capability, too. Without AnyClient, only clients that declare the
// extension can use its methods. They declare it with each request in 2026-07-28, and in the
// handshake of a session.
type Extension struct {
	// ID names the extension, with a prefix of its author's domain: "com.example/jobs". See
	// [mcp.CheckExtensionID].
	ID string
	// Settings are sent to clients with the declaration. They must encode to a JSON object;
	// nil means an empty object.
	Settings any
	// AnyClient lets clients use the methods without declaring the extension, because it defines nothing that they
	// would have to support.
	AnyClient bool
	// Requires, if set, reports what the extension lacks on the server, which has these capabilities: a part of the
	// protocol, such as resources, or another extension, by its ID or settings. With an error, [Server.Check] fails, so
	// the server does not serve; a request that comes after a change, such as [Catalog.RemoveExtension], fails. It must
	// be safe for concurrent use and must not modify the capabilities.
	Requires func(have mcp.ServerCapabilities) error
	// Requests are the handlers of the extension's requests, by method; [ExtensionRequest] makes one of a function with
	// types. A method must not belong to the protocol. An official extension may use the methods that the protocol
	// defines for it.
	//
	// Params is the JSON object that the client sent, including _meta, or nil; the handler may keep it. The result must
	// encode to a JSON object; nil means an empty object. For errors and panics, see the package documentation.
	// [Progress], [Logger], [PrincipalOf], [Notify] and [call.From] work with ctx; the method Extension of the latter
	// returns the client's settings. [Ask] and the functions that ask one question return [ErrCannotAsk], because only
	// tools, prompts and resources can ask.
	Requests map[string]func(ctx context.Context, params json.RawMessage) (result any, err error)
	// Notifications are the handlers of the client's notifications, by method. A method must
	// begin with "notifications/". Params are as for Requests. The server does not read further messages from the same
	// connection until the handler returns. A panic is logged.
	Notifications map[string]func(ctx context.Context, params json.RawMessage)
}

// ExtensionRequest returns a handler for [Extension].Requests that decodes the params into In. Params that do not fit
// are an error of the client, with the code jsonrpc.CodeInvalidParams. Out must encode to a JSON object.
func ExtensionRequest[In, Out any](handle func(context.Context, In) (Out, error)) func(context.Context,
	json.RawMessage) (any, error) {
	return func(ctx context.Context, _ json.RawMessage) (any, error) {
		in, err := call.ParamsOf[In](call.From(ctx))
		if err != nil {
			return nil, err
		}
		return handle(ctx, *in)
	}
}

// AddExtension adds an extension. It panics if the ID is invalid or in use, or if a method belongs
// to the protocol or to another extension. [Catalog.RegisterExtension] returns errors instead.
//
// An extension that changes the methods of the protocol can do so in middleware, which sees
// every call and may replace its result.
func AddExtension(to Registrar, e Extension) {
	if err := to.catalog().RegisterExtension(e); err != nil {
		panic("server: " + err.Error())
	}
}

// RegisterExtension adds an extension. It returns an error where [AddExtension] panics. It is safe while the server
// serves. Clients can use the methods at once. They see the extension in the capabilities when they connect the next
// time or, in 2026-07-28, when they request the capabilities again.
func (c *Catalog) RegisterExtension(e Extension) error {
	if err := c.extensions.add(e); err != nil {
		return fmt.Errorf("extension %q: %w", e.ID, err)
	}
	return nil
}

// RemoveExtension removes an extension, and reports whether c had it. Requests in flight continue. Safe while the
// server serves.
func (c *Catalog) RemoveExtension(id string) bool { return c.extensions.remove(id) }

// extensions are the extensions of a server. The maps are replaced when they change.
type extensions struct {
	mu       sync.RWMutex
	settings map[string]json.RawMessage                    // by ID
	requires map[string]func(mcp.ServerCapabilities) error // by ID
	handlers map[string]extensionHandler                   // by method
}

// extensionHandler is the handler of a method of an extension.
type extensionHandler struct {
	id    string // of the extension
	serve rpc.Handler
}

func (x *extensions) add(e Extension) error {
	if err := mcp.CheckExtensionID(e.ID); err != nil {
		return err
	}
	settings := json.RawMessage("{}")
	if e.Settings != nil {
		var err error
		if settings, err = json.Marshal(e.Settings); err != nil {
			return fmt.Errorf("cannot encode the settings: %w", err)
		}
		if settings[0] != '{' {
			return fmt.Errorf("the settings must encode to a JSON object, not %.20s", settings)
		}
	}
	handlers := make(map[string]extensionHandler, len(e.Requests)+len(e.Notifications))
	for method, handle := range e.Requests {
		if handle == nil {
			return fmt.Errorf("%s: %w", method, errNoHandler)
		}
		if revision.IsNotification(method) {
			return fmt.Errorf("%s: the name of a request must not begin with %s", method, revision.NotificationPrefix)
		}
		handlers[method] = ofExtension(e, func(ctx context.Context, c *rpc.Call) (any, error) {
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
		if !revision.IsNotification(method) {
			return fmt.Errorf("%s: the name of a notification must begin with %s", method, revision.NotificationPrefix)
		}
		handlers[method] = ofExtension(e, func(ctx context.Context, c *rpc.Call) (any, error) {
			handle(ctx, c.Params().Raw())
			return &mcp.EmptyResult{}, nil
		})
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, taken := x.settings[e.ID]; taken {
		return errors.New("the extension was added already")
	}
	for method := range handlers {
		if err := revision.CheckExtensionMethod(method, e.ID); err != nil {
			return err
		}
		if _, taken := x.handlers[method]; taken {
			return fmt.Errorf("the method %s belongs to another extension", method)
		}
	}
	all := map[string]json.RawMessage{e.ID: settings}
	maps.Copy(all, x.settings)
	maps.Copy(handlers, x.handlers)
	x.settings, x.handlers, x.requires = all, handlers, maps.Clone(x.requires)
	if e.Requires != nil {
		if x.requires == nil {
			x.requires = make(map[string]func(mcp.ServerCapabilities) error)
		}
		x.requires[e.ID] = e.Requires
	}
	return nil
}

// remove removes an extension, and reports whether the server had it. Requests in flight continue.
func (x *extensions) remove(id string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, has := x.settings[id]; !has {
		return false
	}
	x.settings, x.handlers, x.requires = maps.Clone(x.settings), maps.Clone(x.handlers), maps.Clone(x.requires)
	delete(x.settings, id)
	delete(x.requires, id)
	maps.DeleteFunc(x.handlers, func(_ string, h extensionHandler) bool { return h.id == id })
	return true
}

// ofExtension restricts a handler to clients that have declared its extension, unless it is for any client. In a
// session the method does not exist for other clients; 2026-07-28 has an error for them.
func ofExtension(e Extension, handle rpc.Handler) extensionHandler {
	id, run := e.ID, func(ctx context.Context, c *rpc.Call) (any, error) {
		c.Ran = true
		return handle(ctx, c)
	}
	if e.AnyClient {
		return extensionHandler{id, run}
	}
	return extensionHandler{id, func(ctx context.Context, c *rpc.Call) (any, error) {
		_, declared := c.Extension(id)
		switch {
		case declared:
			return run(ctx, c)
		case c.Can(revision.MissingCapabilityErrors):
			return nil, &call.CapabilityError{Required: mcp.ClientCapabilities{
				Extensions: map[string]json.RawMessage{id: json.RawMessage("{}")},
			}}
		}
		return nil, jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "method %q requires a client that declares %s",
			c.Method(), id)
	}}
}

// has reports whether a method belongs to an extension.
func (x *extensions) has(method string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.handlers[method].serve != nil
}

// resolve returns the handler of a method, nil if it belongs to no extension, or an error if its extension lacks
// something.
func (x *extensions) resolve(method string, have func() mcp.ServerCapabilities) (rpc.Handler, error) {
	x.mu.RLock()
	h := x.handlers[method]
	requires := x.requires[h.id]
	x.mu.RUnlock()
	if requires == nil {
		return h.serve, nil
	}
	return h.serve, lacking(h.id, requires(have()))
}

// check returns an error for the extensions that lack something on a server with these capabilities.
func (x *extensions) check(have mcp.ServerCapabilities) error {
	x.mu.RLock()
	requires := x.requires
	x.mu.RUnlock()
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(requires)) {
		errs = append(errs, lacking(id, requires[id](have)))
	}
	return errors.Join(errs...)
}

// lacking returns the error of an extension for the error of its Requires, or nil.
func lacking(id string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("extension %q lacks what it requires: %w", id, err)
}

// declared returns the settings that clients receive. They are immutable.
func (x *extensions) declared() map[string]json.RawMessage {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.settings
}
