package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// offersResources reports whether resources are declared.
func (s *Server) offersResources() bool { return s.resources.offered() || s.templates.offered() }

// listResources answers resources/list.
func (s *Server) listResources(ctx context.Context, c *call.Call) call.Outcome {
	if !s.offersResources() {
		return methodNotFound(c)
	}
	after, err := cursorOf(c)
	if err != nil {
		return call.Fail(err)
	}
	if trees := s.trees(); len(trees) > 0 {
		return call.Outcome{Result: s.listWithFiles(ctx, trees, after)}
	}
	page, err := s.resources.page(c.Revision, after, s.pageSize(), s.ready().http.Modern.Identity, func(entries []*resourceEntry, next *string) any {
		result := &mcp.ListResourcesResult{CacheHints: uncached(), Resources: make([]mcp.Resource, len(entries))}
		for i, e := range entries {
			result.Resources[i] = e.resource
		}
		result.NextCursor = next
		return result
	})
	if err != nil {
		return call.Fail(err)
	}
	return call.Outcome{Result: page}
}

// listTemplates answers resources/templates/list.
func (s *Server) listTemplates(_ context.Context, c *call.Call) call.Outcome {
	if !s.offersResources() {
		return methodNotFound(c)
	}
	after, err := cursorOf(c)
	if err != nil {
		return call.Fail(err)
	}
	page, err := s.templates.page(c.Revision, after, s.pageSize(), s.ready().http.Modern.Identity, func(entries []*templateEntry, next *string) any {
		result := &mcp.ListResourceTemplatesResult{CacheHints: uncached(), ResourceTemplates: make([]mcp.ResourceTemplate, len(entries))}
		for i, e := range entries {
			result.ResourceTemplates[i] = e.template
		}
		result.NextCursor = next
		return result
	})
	if err != nil {
		return call.Fail(err)
	}
	return call.Outcome{Result: page}
}

var readResourceMembers = []string{"uri", "_meta", "inputResponses", "requestState"}

// readResource answers resources/read.
func (s *Server) readResource(ctx context.Context, c *call.Call) call.Outcome {
	if !s.offersResources() {
		return methodNotFound(c)
	}
	if name, ok := c.Params.CaseVariant(readResourceMembers...); ok {
		return call.Fail(jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "params member %q differs from a known one in its case", name))
	}
	raw, _ := c.Params.Get("uri")
	if len(raw) == 0 || raw[0] != '"' {
		return call.Fail(jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "params.uri must be a string: the URI of a resource"))
	}
	uri := jsonrpc.Unquote(raw)
	if len(uri) > maxURI {
		return call.Fail(jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "params.uri has %d bytes, more than %d", len(uri), maxURI))
	}
	read, mimeType := s.resourceAt(uri)
	if read == nil {
		return call.Fail(resourceNotFound(uri))
	}
	result, err := read(ctx)
	switch {
	case errors.Is(err, ErrResourceNotFound):
		return call.Fail(resourceNotFound(uri))
	case err != nil:
		return call.Fail(fmt.Errorf("resource %.256q: %w", uri, err))
	case result == nil || len(result.Contents) == 0:
		// An empty list would leave open whether there is such a resource (2026-07-28,
		// server/resources, Error Handling).
		return call.Fail(resourceNotFound(uri))
	}
	return call.Outcome{Result: completed(result, uri, mimeType)}
}

// resourceAt returns how the resource of a URI is read, and its MIME type as far as
// it is known; nil if there is none.
func (s *Server) resourceAt(uri string) (read readFunc, mimeType string) {
	if e, ok := s.resources.get(uri); ok {
		return func(ctx context.Context) (*mcp.ReadResourceResult, error) { return e.read(ctx, uri) }, e.resource.MimeType
	}
	for _, e := range s.templates.all() {
		if values, ok := e.uris.match(uri); ok {
			if read, err := e.open(uri, values); err == nil {
				return read, e.template.MimeType
			}
		}
	}
	return nil, ""
}

// resourceNotFound is the protocol's error, with the code of the revisions that have
// one of its own for it; see revision.SpeakError.
func resourceNotFound(uri string) *jsonrpc.Error {
	data, _ := json.Marshal(mcp.ResourceNotFoundData{URI: uri}) // a string
	return &jsonrpc.Error{Code: mcp.CodeResourceNotFound, Message: "resource not found", Data: data}
}
