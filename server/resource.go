package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
)

// ErrResourceNotFound is returned by the handler of a resource, as it is or wrapped,
// for a URI that names nothing after all. The client gets the protocol's own error.
var ErrResourceNotFound = errors.New("resource not found")

// ResourceHandler reads a resource in the raw. The URI is one that was registered,
// or one of a template that was. A nil result, and one without contents, is
// [ErrResourceNotFound]; what the result leaves out (the URI of contents, caching
// hints) is filled in, in a copy.
//
// An error is reported as an internal error without its text, which goes to the log,
// unless it is or wraps ErrResourceNotFound or a *jsonrpc.Error.
type ResourceHandler func(ctx context.Context, uri string) (*mcp.ReadResourceResult, error)

// AddResource offers a resource that is read by a handler. What the handler returns
// becomes its contents, of the URI and the MIME type that r has:
//
//   - a string is text, a []byte is a blob;
//   - mcp.ResourceContents and []mcp.ResourceContents are as they stand, but for the
//     URI and the MIME type where they have none;
//   - *mcp.ReadResourceResult is as it stands, likewise;
//   - anything else is its JSON as text, of the type application/json unless r has one.
//
// Contents that are none (a nil result, an empty slice of contents) mean
// [ErrResourceNotFound], and so does that error. Any other error, and a panic, is an
// internal error whose text stays in the log, unless it is or wraps a *jsonrpc.Error.
//
// AddResource panics if the resource cannot be offered: if r has no name, if its URI
// is none or is taken. [Server.RegisterResource] returns errors instead. Both are safe
// while the server serves, and keep nothing of r that the caller could change.
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

// AddStatic offers a resource whose contents never change, such as an embedded file:
// text if they are a string, a blob if they are bytes, which must not be modified
// afterwards. It fills in the size, and panics as [AddResource] does.
func AddStatic[Contents string | []byte](s *Server, r mcp.Resource, contents Contents, options ...ResourceOption) {
	if r.Size == nil {
		size := int64(len(contents))
		r.Size = &size
	}
	AddResource(s, r, func(context.Context) (Contents, error) { return contents, nil }, options...)
}

// RegisterResource offers a resource that is read by a raw handler: for resources
// that are not known when the program is written. The error says why the resource
// cannot be offered. Safe while the server serves.
func (s *Server) RegisterResource(r mcp.Resource, handler ResourceHandler, options ...ResourceOption) error {
	if err := s.addResource(r, handler, options); err != nil {
		return fmt.Errorf("resource %q: %w", r.URI, err)
	}
	return nil
}

// RemoveResource withdraws the resource of a URI and reports whether there was one.
// What is being read is read to its end. Safe while the server serves.
func (s *Server) RemoveResource(uri string) bool {
	return removed(s, rpc.ResourcesChanged, &s.resources, uri)
}

// DeclareResources declares that the server has resources even while it has none, for
// one whose resources come and go.
func (s *Server) DeclareResources() { s.resources.offer() }

// resourceEntry is one resource as it is offered. It does not change.
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

var errNoName = errors.New("it needs a name")

// checkURI checks the URI of something that is offered.
func checkURI(uri string) error {
	switch {
	case len(uri) > maxURI:
		return fmt.Errorf("the URI is longer than %d bytes", maxURI)
	case !uriScheme.MatchString(uri):
		return errors.New("a URI begins with a scheme, as in file:///notes.txt")
	case !uriText.MatchString(uri):
		return errors.New("the URI has characters that must be percent-encoded")
	}
	return nil
}

// RFC 3986, sections 3.1 and 2.
var (
	uriScheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:`)
	uriText   = regexp.MustCompile(`^(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*$`)
)

// detached returns a definition of our own, which the caller cannot change anymore,
// and which is sure to have a JSON form: one that has none would break the list of
// all.
func detached[T any](definition T) (own T, err error) {
	raw, err := json.Marshal(definition)
	if err != nil {
		return own, fmt.Errorf("the definition cannot be encoded: %w", err)
	}
	err = json.Unmarshal(raw, &own)
	return own, err
}
