// Package search is an extension of the protocol, as a package outside of Parley would define it. Clients search the
// resources of a server with its request, and are notified of each match before the result. Both sides opt in: a
// server with [Add], a client with [Extension].
package search

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// ID names the extension.
const ID = "com.example/search"

const (
	methodFind  = "com.example/search/find"
	notifyMatch = "notifications/com.example/match"
)

// Query is what a client searches for.
type Query struct {
	Text string `json:"text"`
}

// Matches are the URIs of the resources that match.
type Matches struct {
	URIs []string `json:"uris"`
}

type match struct {
	URI string `json:"uri"`
}

// Add adds the extension to a server that has resources. They are found by a part of their URIs.
func Add(s *server.Server, uris []string) {
	find := func(ctx context.Context, q Query) (Matches, error) {
		var found Matches
		for _, uri := range uris {
			if !strings.Contains(uri, q.Text) {
				continue
			}
			found.URIs = append(found.URIs, uri)
			params, err := json.Marshal(match{uri})
			if err != nil {
				return found, err
			}
			if err := server.Notify(ctx, notifyMatch, params); err != nil {
				return found, err
			}
		}
		return found, nil
	}
	server.AddExtension(s, server.Extension{
		ID:       ID,
		Settings: map[string]bool{"matches": true}, // clients see them
		Requires: func(have mcp.ServerCapabilities) error {
			if have.Resources == nil {
				return errors.New("resources")
			}
			return nil
		},
		Requests: map[string]func(context.Context, json.RawMessage) (any, error){
			methodFind: server.ExtensionRequest(find),
		},
	})
}

// Middleware for Server.Middleware trims what clients search for, and keeps the matches in temporary directories to
// itself. The program decides where in the list it stands.
func Middleware(next call.Handler) call.Handler {
	return func(ctx context.Context, c *call.Call) (any, error) {
		if c.Method() != methodFind {
			return next(ctx, c)
		}
		q, err := call.ParamsOf[Query](c)
		if err != nil {
			return nil, err
		}
		if err := c.SetParams(Query{strings.TrimSpace(q.Text)}); err != nil {
			return nil, err
		}
		c.OnNotification(func(n *call.Notification) bool { return !strings.Contains(string(n.Params), "file:///tmp/") })
		return next(ctx, c)
	}
}

// Extension returns the client's side, for Dialer.Extensions. The function receives each match.
func Extension(onMatch func(uri string)) client.Extension {
	return client.Extension{ID: ID, Notifications: map[string]func(context.Context, json.RawMessage){
		notifyMatch: func(_ context.Context, params json.RawMessage) {
			var m match
			if json.Unmarshal(params, &m) == nil {
				onMatch(m.URI)
			}
		},
	}}
}

// Find searches the resources of a server.
func Find(ctx context.Context, c *client.Client, text string) ([]string, error) {
	found, err := client.CallExtension[Matches](ctx, c, methodFind, Query{text})
	return found.URIs, err
}

// Supported reports whether a server supports the extension.
func Supported(c *client.Client) bool {
	_, ok := c.Server().Extension(ID)
	return ok
}
