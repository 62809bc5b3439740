package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// offersResources reports whether the server declares the resources capability.
func (s *Server) offersResources() bool { return s.resources.offered() || s.templates.offered() }

var readResourceMembers = []string{"uri", "_meta", "inputResponses", "requestState"}

// foundResource is a resource that a client has named.
type foundResource struct {
	uri, mimeType string         // the MIME type is empty if it is unknown
	offer         *resourceOffer // of the resource or template
	read          readFunc
}

// resolveResource returns the *foundResource that a call of resources/read names.
func (s *Server) resolveResource(ctx context.Context, c *rpc.Call) (any, []string, error) {
	if err := checkNames(c.Params(), readResourceMembers...); err != nil {
		return nil, nil, err
	}
	uri, err := textParam(c, "uri", "URI of a resource")
	if err != nil {
		return nil, nil, err
	}
	if len(uri) > maxURI {
		return nil, nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "params.uri has %d bytes, the limit is %d", len(uri),
			maxURI)
	}
	found, err := s.resourceFor(ctx, uri, c.Principal())
	if err != nil {
		return nil, nil, err
	}
	return found, found.offer.scopes, nil
}

// readResource serves resources/read.
func (s *Server) readResource(ctx context.Context, c *rpc.Call) (any, error) {
	found := c.Target.Entry.(*foundResource)
	uri := found.uri
	result, err := found.read(ctx)
	switch {
	case errors.Is(err, ErrResourceNotFound):
		return nil, resourceNotFound(uri)
	case err != nil:
		return nil, fmt.Errorf("resource %.256q: %w", uri, err)
	case result == nil || len(result.Contents) == 0:
		// Empty contents would leave open whether the resource exists (2026-07-28,
		// server/resources, Error Handling).
		return nil, resourceNotFound(uri)
	}
	if err := s.checkMeta(result.Meta); err != nil {
		return nil, fmt.Errorf("resource %.256q: %w", uri, err)
	}
	return completed(result, uri, found.mimeType, found.offer), nil
}

// resourceAt returns the resource with a URI. The error is for the client: there is no such resource
// that the caller can see, or the URI is too long for the templates.
func (c *Catalog) resourceAt(uri string, who principal.Principal) (*foundResource, error) {
	if e, ok := c.resources.find(uri, who); ok {
		read := func(ctx context.Context) (*mcp.ReadResourceResult, error) { return e.read(ctx, uri) }
		return &foundResource{uri, e.resource.MimeType, &e.resourceOffer, read}, nil
	}
	var found *foundResource
	complete := c.templates.match(uri, func(e *templateEntry, values map[string][]string) bool {
		if !e.visibleTo(who) {
			return true
		}
		if read, err := e.open(uri, values); err == nil {
			found = &foundResource{uri, e.template.MimeType, &e.resourceOffer, read}
		}
		return found == nil
	})
	switch {
	case !complete:
		return nil, errMatching(uri)
	case found == nil:
		return nil, resourceNotFound(uri)
	}
	return found, nil
}

// serving returns the options of the resource or template that serves a URI to any of the
// callers, or nil.
func (c *Catalog) serving(uri string, who []principal.Principal) *resourceOffer {
	if e, ok := c.resources.get(uri); ok && slices.ContainsFunc(who, e.visibleTo) {
		return &e.resourceOffer
	}
	var serving *resourceOffer
	c.templates.match(uri, func(e *templateEntry, _ map[string][]string) bool {
		if slices.ContainsFunc(who, e.visibleTo) {
			serving = &e.resourceOffer
		}
		return serving == nil
	})
	return serving
}

// readersOf returns a function that reports who receives updates of a resource: the callers
// that can see a resource or template that serves it. It returns nil, for every caller, if no
// entry serves the URI, because a resource need not be listed. A URI that is too long for the
// templates has no other readers than those of the templates that were found.
func (c *Catalog) readersOf(uri string) func(principal.Principal) bool {
	var serving []*resourceOffer
	if e, ok := c.resources.get(uri); ok {
		serving = append(serving, &e.resourceOffer)
	}
	complete := c.templates.match(uri, func(e *templateEntry, _ map[string][]string) bool {
		serving = append(serving, &e.resourceOffer)
		return true
	})
	if complete && len(serving) == 0 || slices.ContainsFunc(serving,
		func(o *resourceOffer) bool { return !o.restricted() }) {
		return nil
	}
	return func(who principal.Principal) bool {
		return slices.ContainsFunc(serving, func(o *resourceOffer) bool { return o.visibleTo(who) })
	}
}

// resourceNotFound returns the protocol's error for a missing resource, which is downgraded for
// revisions with another code.
func resourceNotFound(uri string) *jsonrpc.Error {
	data, _ := json.Marshal(mcp.ResourceNotFoundData{URI: uri}) // a string
	return &jsonrpc.Error{Code: mcp.CodeResourceNotFound, Message: "resource not found", Data: data}
}
