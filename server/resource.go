package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
)

// ErrResourceNotFound is returned, possibly wrapped, by the handler of a resource for a URI
// that does not exist. The client receives the protocol's error for that.
var ErrResourceNotFound = errors.New("resource not found")

// ResourceHandler is the handler of an untyped resource or template. A nil result, and one
// without contents, means [ErrResourceNotFound]. Missing fields of the result (URIs, caching
// hints) are filled in, in a copy.
//
// The client receives an error as an internal error without its text, which is logged, unless
// the error is or wraps ErrResourceNotFound or a *jsonrpc.Error.
type ResourceHandler func(ctx context.Context, uri string) (*mcp.ReadResourceResult, error)

// AddResource adds a resource with a handler. The returned value becomes its contents:
//
//   - a string becomes text, a []byte becomes a blob;
//   - mcp.ResourceContents, []mcp.ResourceContents and *mcp.ReadResourceResult are used
//     unchanged, except that a missing URI or MIME type is filled in from r;
//   - any other value becomes its JSON encoding as text, with the MIME type application/json
//     unless r has one.
//
// A nil result and an empty slice of contents mean [ErrResourceNotFound]. The client receives
// any other error, and a panic, as an internal error without its text, which is logged, unless
// the error is or wraps a *jsonrpc.Error.
//
// AddResource panics if r has no name, or if its URI is invalid or in use.
// [Server.RegisterResource] returns errors instead. Both are safe while the server serves, and
// copy r.
func AddResource[Out any](s *Server, r mcp.Resource, handler func(ctx context.Context) (Out, error), options ...ResourceOption) {
	if err := addResource(s, r, handler, options); err != nil {
		panic(fmt.Sprintf("server: resource %q: %v", r.URI, err))
	}
}

func addResource[Out any](s *Server, r mcp.Resource, handler func(ctx context.Context) (Out, error), options []ResourceOption) error {
	if handler == nil {
		return errNoHandler
	}
	contents := contentsOf[Out](&r.MimeType)
	return s.addResource(r, func(ctx context.Context, _ string) (*mcp.ReadResourceResult, error) {
		out, err := handler(ctx)
		if err != nil {
			return nil, err
		}
		return contents(out)
	}, options)
}

// AddStatic adds a resource with constant contents, such as an embedded file: text for a
// string, a blob for bytes. It keeps the bytes, which must not be modified afterwards. It sets
// the size, and panics as [AddResource] does.
func AddStatic[Contents string | []byte](s *Server, r mcp.Resource, contents Contents, options ...ResourceOption) {
	if r.Size == nil {
		size := int64(len(contents))
		r.Size = &size
	}
	AddResource(s, r, func(context.Context) (Contents, error) { return contents, nil }, options...)
}

// RegisterResource adds a resource with an untyped handler. It returns an error if the
// resource is invalid or its URI is in use. Safe while the server serves.
func (s *Server) RegisterResource(r mcp.Resource, handler ResourceHandler, options ...ResourceOption) error {
	if err := s.addResource(r, handler, options); err != nil {
		return fmt.Errorf("resource %q: %w", r.URI, err)
	}
	return nil
}

// RemoveResource removes the resource of a URI and reports whether it existed. Reads in flight
// finish. Safe while the server serves.
func (s *Server) RemoveResource(uri string) bool {
	return removed(s, rpc.ResourcesChanged, &s.resources, uri)
}

// DeclareResources declares the resources capability even while the server has no resources,
// because some may be added later.
func (s *Server) DeclareResources() { s.resources.offer() }

// resourceEntry is one registered resource. It is immutable.
type resourceEntry struct {
	resourceOffer
	resource mcp.Resource
	read     ResourceHandler
}

func (s *Server) addResource(r mcp.Resource, handler ResourceHandler, options []ResourceOption) error {
	if handler == nil {
		return errNoHandler
	}
	if r.Name == "" {
		return errNoName
	}
	if err := checkURI(r.URI); err != nil {
		return err
	}
	if err := s.checkMeta(r.Meta); err != nil {
		return err
	}
	r, err := detached(r)
	if err != nil {
		return err
	}
	return added(s, rpc.ResourcesChanged, &s.resources, r.URI, &resourceEntry{s.resourceOffer(r.URI, options), r, handler})
}

var errNoName = errors.New("name must not be empty")

// checkURI checks the URI of a definition.
func checkURI(uri string) error {
	switch {
	case len(uri) > maxURI:
		return fmt.Errorf("the URI has %d bytes, the limit is %d", len(uri), maxURI)
	case !uriScheme.MatchString(uri):
		return errors.New("the URI must begin with a scheme, such as file:///notes.txt")
	case !uriText.MatchString(uri):
		return errors.New("the URI contains characters that must be percent-encoded")
	}
	return nil
}

// RFC 3986, sections 3.1 and 2.
var (
	uriScheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:`)
	uriText   = regexp.MustCompile(`^(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*$`)
)

// detached returns a deep copy of a definition, which the caller cannot modify. The definition
// must have a JSON encoding: one without would make every list fail.
func detached[T any](definition T) (own T, err error) {
	raw, err := json.Marshal(definition)
	if err != nil {
		return own, fmt.Errorf("cannot encode the definition: %w", err)
	}
	err = jsonv2.Unmarshal(raw, &own)
	return own, err
}
