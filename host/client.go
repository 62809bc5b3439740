package host

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

// Client uses one server of a [Host] like a [client.Client], but under the policy, the hooks and the audit log of the
// Host. Packages skills and apps accept it.
//
// If the server is starting, a method waits for it. If the server is down, a method starts it again and waits. If a
// server that was ready does not start again at once, a method waits for further attempts, until about 10 seconds after
// the server was lost. A request that was not sent because the connection was lost is sent again; a request that the
// server may have received is not.
//
// The methods return a *[DownError] if the server cannot be started or has just failed, [ErrUnknown] if the Host does
// not know the server, and a *[DeniedError] if the policy or a hook rejects the request. They are safe for concurrent
// use, and take the server's own names of tools and prompts.
type Client struct {
	host   *Host
	server string
}

// Client returns a Client for a server of the Host. It neither waits for the server nor checks that it exists.
func (h *Host) Client(server string) Client { return Client{h, server} }

// Server returns what the server declared about itself. It is empty while the Host does not know it.
func (c Client) Server() client.ServerDetails {
	if s := c.host.find(c.server); s != nil {
		return s.snapshot().Server
	}
	return client.ServerDetails{}
}

// CallTool calls a tool, as client.Client.CallTool does.
func (c Client) CallTool(ctx context.Context, tool string, arguments any,
	options ...client.CallOption) (*mcp.CallToolResult, error) {
	s, err := c.host.enter(c.server)
	if err != nil {
		return nil, err
	}
	defer s.leave()
	return c.host.callTool(ctx, s, tool, arguments, options)
}

// ReadResource reads a resource, as client.Client.ReadResource does. The URI may belong to a large result of a tool;
// see [ServerConfig.MaxResult].
func (c Client) ReadResource(ctx context.Context, uri string,
	options ...client.CallOption) (*mcp.ReadResourceResult, error) {
	h, server := c.host, c.server
	s, err := h.enter(server)
	if err != nil {
		return nil, err
	}
	defer s.leave()
	if s.config.MaxResult > 0 && isResult(server, uri) {
		return h.readResult(ctx, s, uri)
	}
	r := Request{Method: mcp.MethodReadResource, Server: server, Kind: KindResource, Name: uri}
	return guard(ctx, h, s, r, nil, func(any) (*mcp.ReadResourceResult, error) {
		return use(ctx, s, func(ctx context.Context, c *client.Client) (*mcp.ReadResourceResult, error) {
			return c.ReadResource(ctx, uri, s.declared(ctx, h.sourced(options))...)
		})
	})
}

// GetPrompt gets a prompt, as client.Client.GetPrompt does.
func (c Client) GetPrompt(ctx context.Context, prompt string, arguments any,
	options ...client.CallOption) (*mcp.GetPromptResult, error) {
	h, server := c.host, c.server
	s, err := h.enter(server)
	if err != nil {
		return nil, err
	}
	defer s.leave()
	r := Request{Method: mcp.MethodGetPrompt, Server: server, Kind: KindPrompt, Name: prompt}
	return guard(ctx, h, s, r, arguments, func(arguments any) (*mcp.GetPromptResult, error) {
		return use(ctx, s, func(ctx context.Context, c *client.Client) (*mcp.GetPromptResult, error) {
			if err := s.offers(ctx, r.Kind, r.Name); err != nil {
				return nil, err
			}
			return c.GetPrompt(ctx, prompt, arguments, s.declared(ctx, h.sourced(options))...)
		})
	})
}

// Complete requests completions, as client.Client.Complete does.
func (c Client) Complete(ctx context.Context, params mcp.CompleteParams) (*mcp.Completion, error) {
	h, server := c.host, c.server
	s, err := h.enter(server)
	if err != nil {
		return nil, err
	}
	defer s.leave()
	r := completionRequest(server, &params)
	result, err := guard(ctx, h, s, r, nil, func(arguments any) (*mcp.CompleteResult, error) {
		if changed, ok := arguments.(json.RawMessage); ok {
			if err := r.setCompletion(&params, changed); err != nil {
				return nil, err
			}
		}
		return use(ctx, s, func(ctx context.Context, c *client.Client) (*mcp.CompleteResult, error) {
			if err := s.offers(ctx, r.Kind, r.Name); err != nil {
				return nil, err
			}
			completion, err := c.Complete(ctx, params)
			if err != nil {
				return nil, err
			}
			return &mcp.CompleteResult{Completion: *completion}, nil
		})
	})
	if err != nil {
		return nil, err
	}
	return &result.Completion, nil
}

// Subscribe calls updated whenever a resource was updated, until ctx ends or the Host is closed. It also calls updated
// when an update may have been missed, for example after a reconnect and at the start. Several updates may lead to one
// call. updated runs on the goroutine that receives the messages of the server, so it must return soon.
//
// Subscribe starts a lazy server, but not a server that is down, and does not call updated while the
// server is down or if the server does not support subscriptions.
//
// For a server with CallerAuth, Subscribe uses the credentials of the caller of ctx, and keeps trying if they do not
// suffice.
//
// If another server replaces this one, Subscribe continues with it; see [Host.SetServers]. Subscribe returns nil when
// ctx ends. It returns:
//
//   - [ErrUnknown] for an unknown or removed server, and call.ErrClosed
//   - a *call.OverloadError if the server would have more than 1,024 subscribed resources, or more than 1 MiB of their
//     URIs, or if the lists or resources of 128 other callers of a server with CallerAuth are watched
//   - a *[DeniedError] if the policy rejects the subscription, now or later; see [Host.PolicyChanged]
//   - an error if a server with CallerAuth requires an authenticated caller
func (c Client) Subscribe(ctx context.Context, uri string, updated func()) error {
	h, server := c.host, c.server
	sub := &subscriber{updated}
	for {
		s := h.find(server)
		switch {
		case s == nil:
			return unknown("server", server)
		case ctx.Err() != nil:
			return nil
		case h.ctx.Err() != nil:
			return errClosed
		}
		var changed <-chan struct{} // receives when the policy changes
		if ctx.Value(followKey{}) == nil {
			changed = h.policies.wait()
			if err := c.MaySubscribe(ctx, uri); err != nil {
				return err
			}
		}
		subs, release := &s.subscriptions, func() {}
		if s.config.CallerAuth != nil {
			var err error
			if subs, release, err = s.pool.watchFor(callerOf(ctx).Principal); err != nil {
				return fmt.Errorf("server %q: %w", server, err)
			}
		}
		if err := subs.add(uri, sub); err != nil {
			release()
			return fmt.Errorf("server %q: %w", server, err)
		}
		if s.snapshot().State == NotStarted {
			s.want()
		}
		select {
		case <-ctx.Done():
		case <-changed: // ask the policy again
		case <-s.serving.Done(): // continue with the server that replaces it, if any
		}
		subs.remove(uri, sub)
		release()
	}
}

// CallExtension sends a request of an extension, as client.Client.CallExtension does, and returns its result, a JSON
// object. The method must belong to the skills extension or to an extension in [ServerConfig.Extensions]; for others
// the error is [ErrUnknown]. For the policy, it is a [Request] of kind extension.
func (c Client) CallExtension(ctx context.Context, method string, params any,
	options ...client.CallOption) (json.RawMessage, error) {
	result, err := extend(ctx, c.host, c.server, method, params, false,
		func(ctx context.Context, c *client.Client, params any) (*json.RawMessage, error) {
			result, err := c.CallExtension(ctx, method, params, options...)
			return &result, err
		})
	if err != nil {
		return nil, err
	}
	return *result, nil
}
