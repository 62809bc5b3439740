package call

import (
	"context"
	"encoding/json"
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/internal/callkey"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// Handler handles one call.
//
// The result is a pointer to one of the result types of package mcp, such as
// *mcp.ListToolsResult. For the methods of extensions it is any value that encodes to a JSON
// object; a client receives it as a json.RawMessage. A nil result without an error is an error.
// Middleware may change the fields of the result of a list, such as the list. The entries of the
// list are shared between calls and must not be modified. Other results may be shared as a
// whole, by the handler of a tool for example: return a changed copy instead.
//
// A server sends a *jsonrpc.Error to its client unchanged. It sends an *auth.ScopeError as a
// request for more scopes, a *CapabilityError as a missing capability, and any other error as
// an internal error without its text, which it logs. A client returns the error to its caller.
//
// On a server, the result of tools/call is a *mcp.CallToolResult, a *mcp.CreateTaskResult if the call has become a
// task, or a *mcp.InputRequiredResult if it asks a question (2026-07-28).
//
// The context carries the call on a server ([From]). It ends when the caller cancels the
// request or its connection is lost.
type Handler func(ctx context.Context, c *Call) (result any, err error)

// Middleware wraps the handling of calls. It runs for every method, even one that the server does not know. It may
// return without calling next, and may call next more than once.
//
// Pass the same call to next, and a context derived from the one that the middleware received.
//
// In a server, middleware can ask the client with the functions of package server, as a handler can, if the method
// allows questions. It then returns server.ErrInputRequired, and runs again with the answer.
//
// To refuse a call, return an error without calling next: a *jsonrpc.Error is sent unchanged. To let the model read the
// reason, return a *mcp.CallToolResult with IsError.
type Middleware func(next Handler) Handler

// Call describes one request or notification that a server handles, or that a client is about to send. Middleware can
// change it with [Call.SetParams], [Call.SetMeta] and [Call.OnNotification] before it calls next. A Call is never
// reused, so it may be kept. Its methods are safe for concurrent use, except for these three.
type Call struct {
	method    string
	id        jsonrpc.ID
	params    *jsonrpc.Members
	revision  mcp.Revision
	peer      Peer
	principal principal.Principal
	source    string
	changes   *changes // nil until the first change; on a client never nil
}

// changes records what middleware has changed in a call.
type changes struct {
	added   mcp.Meta         // Description.Added
	sent    *jsonrpc.Members // original params; nil if unchanged
	filters []func(*Notification) bool
}

// Description contains the values that the methods of a [Call] return.
type Description struct {
	Method string
	ID     jsonrpc.ID // zero for a notification, and for a request that a client has not sent yet
	// Params is the params object; nil if there is none. See jsonrpc.MembersOf.
	Params    *jsonrpc.Members
	Revision  mcp.Revision
	Peer      Peer
	Principal principal.Principal
	Source    string
	// Added receives what [Call.SetMeta] adds, if a client is about to send the request. It is nil on a server.
	Added mcp.Meta
}

// Peer describes the client that has sent a request, as the client declares itself. Info is for
// display and logs only, because a client can claim anything there (2026-07-28, basic, _meta).
// Both fields are shared between calls and must not be modified.
type Peer struct {
	Info         *mcp.Implementation     // never nil in a Call
	Capabilities *mcp.ClientCapabilities // never nil in a Call; empty before the handshake of a session
}

// New returns a Call for tests of middleware. It copies d, but not the values that d refers to.
// Servers and clients make the calls that middleware receives.
func New(d Description) *Call {
	if d.Params == nil {
		d.Params = &noParams
	}
	if d.Peer.Info == nil {
		d.Peer.Info = new(mcp.Implementation)
	}
	if d.Peer.Capabilities == nil {
		d.Peer.Capabilities = &noCapabilities
	}
	c := &Call{d.Method, d.ID, d.Params, d.Revision, d.Peer, d.Principal, d.Source, nil}
	if d.Added != nil {
		c.changes = &changes{added: d.Added}
	}
	return c
}

var (
	noParams       jsonrpc.Members
	noCapabilities mcp.ClientCapabilities
)

// From returns the call that a server's handler runs for. It returns nil if ctx is not derived
// from the context of a handler.
func From(ctx context.Context) *Call {
	c, _ := ctx.Value(callkey.Key{}).(*Call)
	return c
}

// Method returns the method of the request, such as "tools/call". On a server it can be any
// text that a client sends, of any length.
func (c *Call) Method() string { return c.method }

// ID returns the id of the request. It is zero for a notification. On a client it is zero, too,
// because the id is assigned when the request is sent.
func (c *Call) ID() jsonrpc.ID { return c.id }

// Params returns the params object. It is never nil. The bytes must not be modified. [ParamsOf] decodes them.
func (c *Call) Params() *jsonrpc.Members { return c.params }

// ParamsOf returns the params of a call as a value of one of the types of package mcp, such as mcp.CallToolParams for
// tools/call. It returns a *jsonrpc.Error with the code jsonrpc.CodeInvalidParams if they do not fit: middleware can
// return it to the client. The value must not be modified.
func ParamsOf[P any](c *Call) (*P, error) {
	params := new(P)
	raw := c.params.Raw()
	if raw == nil {
		raw = json.RawMessage("{}")
	}
	if err := jsonv2.Unmarshal(raw, params); err != nil {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%.128s: cannot decode the params as %T: %v", c.method,
			*params, err)
	}
	return params, nil
}

// Name returns the tool, prompt or resource URI that the params name, or "".
func (c *Call) Name() string {
	for _, member := range [...]string{"name", "uri"} {
		if raw, ok := c.params.Get(member); ok {
			return jsonrpc.Unquote(raw)
		}
	}
	return ""
}

// Meta returns the raw value of a key in the request's _meta object, or nil if there is none. The bytes must not be
// modified.
func (c *Call) Meta(key string) json.RawMessage {
	if meta, ok := c.params.Get("_meta"); ok && meta[0] == '{' {
		if value, ok := jsonrpc.Get(meta, key); ok {
			return value
		}
	}
	if c.changes != nil {
		return c.changes.added[key]
	}
	return nil
}

// Revision returns the revision of the protocol that the request uses.
func (c *Call) Revision() mcp.Revision { return c.revision }

// Peer returns the description of the client that sent the request. On a client its fields are
// empty.
func (c *Call) Peer() Peer { return c.peer }

// Principal returns the authenticated caller. It is principal.Anonymous without authentication.
func (c *Call) Principal() principal.Principal { return c.principal }

// Source returns the id of the session or the network address that a request comes from, or "" if neither is known.
// Limits use it to tell unauthenticated callers apart. A session id is a secret, so do not log it.
func (c *Call) Source() string { return c.source }

// Extension returns the settings with which the client has declared an extension, a JSON
// object, and false if the client has not declared it. Clients of 2026-07-28 declare extensions
// with each request. In a session they are experimental capabilities of the handshake.
func (c *Call) Extension(id string) (settings json.RawMessage, ok bool) {
	declared := c.peer.Capabilities
	settings, ok = declared.Extensions[id]
	if !ok && !c.revision.Modern() {
		settings, ok = declared.Experimental[id]
	}
	return settings, ok && len(settings) > 0 && settings[0] == '{'
}

// SetParams replaces the params. They must encode to a JSON object without _meta, which stays as it is. So do the
// fields task, inputResponses and requestState of a call that may ask or become a task, unless the new params contain
// them. The middleware inside and the handler see the new params. A server checks them as it checks those of clients:
// whether the tool exists, for instance, and whether the caller may use it.
func (c *Call) SetParams(params any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("cannot encode the params of %.128s: %w", c.method, err)
	}
	if raw[0] != '{' {
		return fmt.Errorf("the params of %.128s must encode to a JSON object, not %.20s", c.method, raw)
	}
	if _, ok := jsonrpc.Get(raw, metaName); ok {
		return fmt.Errorf("the params of %.128s must not contain _meta: use SetMeta", c.method)
	}
	for _, own := range c.ownMembers() {
		if value, ok := c.params.Get(own); ok {
			if _, set := jsonrpc.Get(raw, own); !set {
				raw = withMember(raw, own, value)
			}
		}
	}
	c.replace(raw)
	return nil
}

// ownMembers returns the fields of params that belong to the protocol, not to the tool, prompt or resource.
func (c *Call) ownMembers() []string {
	switch c.method {
	case mcp.MethodCallTool, mcp.MethodGetPrompt, mcp.MethodReadResource:
		return []string{metaName, "task", "inputResponses", "requestState"}
	}
	return []string{metaName}
}

// replace replaces the params, including _meta.
func (c *Call) replace(params []byte) {
	if change := c.change(); change.sent == nil {
		change.sent = c.params
	}
	c.params = jsonrpc.MembersOf(params)
}

func (c *Call) change() *changes {
	if c.changes == nil {
		c.changes = new(changes)
	}
	return c.changes
}

// ParamsBefore returns the params before the first [Call.SetParams] or [Call.SetMeta] of a server's middleware: those
// that the client has sent.
func (c *Call) ParamsBefore() *jsonrpc.Members {
	if c.changes != nil && c.changes.sent != nil {
		return c.changes.sent
	}
	return c.params
}

const metaName = "_meta"

// withMember returns a JSON object in which a key has this value. The key comes last.
func withMember(object []byte, name string, value []byte) []byte {
	changed := []byte{'{'}
	for other, v := range jsonrpc.All(object) {
		if other != name {
			changed = append(append(append(jsonrpc.AppendString(changed, other), ':'), v...), ',')
		}
	}
	changed = append(jsonrpc.AppendString(changed, name), ':')
	return append(append(changed, value...), '}')
}

// SetMeta sets an entry of the _meta object: of the request that a client is about to send, or on a server of the one
// that the middleware inside and the handler see. If the caller of the client has set the same key, the caller's value
// is sent instead, unless the key is trace context. Middleware calls SetMeta before it calls next.
//
// The key must satisfy [mcp.CheckMetaKey] and must not be reserved by the protocol; the keys of
// trace context are allowed. SetMeta returns an error for another key, and for a value that has no
// JSON encoding. It is not safe for concurrent use.
func (c *Call) SetMeta(key string, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("cannot encode _meta %q: %w", key, err)
	}
	if err := mcp.CheckMeta(key, raw); err != nil {
		return err
	}
	if c.isOutgoing() {
		c.changes.added[key] = raw
		return nil
	}
	params, meta := []byte("{}"), []byte("{}")
	if c.params.Len() > 0 {
		params = c.params.Raw()
	}
	if old, ok := c.params.Get(metaName); ok && old[0] == '{' {
		meta = old
	}
	c.replace(withMember(params, metaName, withMember(meta, key, raw)))
	return nil
}

// isOutgoing reports whether a client is about to send the request.
func (c *Call) isOutgoing() bool { return c.changes != nil && c.changes.added != nil }

// Notification is a notification that belongs to a call: its progress and log messages, what its handler sends with
// server.Notify, and the changes that a subscription reports (2026-07-28, subscriptions/listen).
type Notification struct {
	Method string
	Params json.RawMessage // a JSON object, which may contain _meta, or nil
}

// OnNotification makes deliver see each notification that belongs to the call, before a server sends it, or before the
// functions of the Dialer receive it on a client. It may change Params, to a JSON object or nil; the bytes must not be
// modified. The notification is dropped if deliver returns false, or sets Params to anything else.
//
// Middleware calls OnNotification before it calls next. The innermost middleware sees a notification first. The
// function is called in the order of the notifications, and must not block. On a client it runs in the goroutine that
// receives, and sees what the protocol assigns to a call: all of the above, except that log messages and notifications
// of extensions on a byte stream do not name their call. There, a panic ends the request with an error.
func (c *Call) OnNotification(deliver func(n *Notification) bool) {
	change := c.change()
	change.filters = append(change.filters, deliver)
}

// Filters returns the functions of [Call.OnNotification], for tests of middleware.
func (c *Call) Filters() []func(n *Notification) (deliver bool) {
	if c.changes == nil {
		return nil
	}
	return c.changes.filters
}
