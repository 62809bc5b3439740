package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// ErrResourceNotFound is returned by the handler of a resource, wrapped or not, if the resource
// does not exist. The client receives the protocol's error for a missing resource.
var ErrResourceNotFound = errors.New("resource not found")

// ResourceHandler is the handler of an untyped resource or template. A nil result and a result
// without contents mean [ErrResourceNotFound]. If URIs, MIME types or caching hints are missing
// in the result, the client receives a copy that has them. For other errors and panics, see the
// package documentation.
type ResourceHandler func(ctx context.Context, uri string) (*mcp.ReadResourceResult, error)

// AddResource adds a resource with a typed handler. The returned value becomes the contents:
//
//   - a string becomes text, a []byte becomes a blob;
//   - mcp.ResourceContents, []mcp.ResourceContents and *mcp.ReadResourceResult are used
//     unchanged, except that a missing URI or MIME type is filled in from r;
//   - any other value becomes its JSON encoding as text, with the MIME type application/json
//     unless r has one.
//
// A nil pointer or map and an empty slice of contents mean [ErrResourceNotFound]. The server
// does not modify the returned value. The handler must not modify it later. For errors and
// panics of the handler, see the package documentation.
//
// AddResource panics if r has no name, if its URI is in use, has no scheme, contains characters
// that must be percent-encoded, or has more than 8 KiB, or if a key in r.Meta is invalid.
// [Catalog.RegisterResource] returns errors instead. Both copy r and are safe while the server
// serves.
func AddResource[Out any](
	to Registrar, r mcp.Resource, handler func(ctx context.Context) (Out, error), options ...ResourceOption,
) {
	if err := addResource(to.catalog(), r, handler, options); err != nil {
		panic(fmt.Sprintf("server: resource %q: %v", r.URI, err))
	}
}

func addResource[Out any](
	c *Catalog, r mcp.Resource, handler func(ctx context.Context) (Out, error), options []ResourceOption,
) error {
	if handler == nil {
		return errNoHandler
	}
	contents := contentsOf[Out](&r.MimeType)
	return c.addResource(r, func(ctx context.Context, _ string) (*mcp.ReadResourceResult, error) {
		out, err := handler(ctx)
		if err != nil {
			return nil, err
		}
		return contents(out)
	}, options)
}

// AddStatic adds a resource with constant contents, such as an embedded file. A string becomes
// text, a []byte becomes a blob. AddStatic retains the bytes, which must not be modified
// afterwards. It sets r.Size if that is nil, and panics where [AddResource] does.
func AddStatic[Contents string | []byte](to Registrar, r mcp.Resource, contents Contents, options ...ResourceOption) {
	if r.Size == nil {
		size := int64(len(contents))
		r.Size = &size
	}
	AddResource(to, r, func(context.Context) (Contents, error) { return contents, nil }, options...)
}

// RegisterResource adds a resource with an untyped handler. It returns an error where
// [AddResource] panics. If r has a Source, it is a resource of another server, whose URI may be any
// text. RegisterResource copies r. Safe while the server serves.
func (c *Catalog) RegisterResource(r mcp.Resource, handler ResourceHandler, options ...ResourceOption) error {
	if err := c.addResource(r, handler, options); err != nil {
		return fmt.Errorf("resource %q: %w", r.URI, err)
	}
	return nil
}

// RemoveResource removes the resource with a URI and reports whether it existed. Reads in flight
// continue. Safe while the server serves.
func (c *Catalog) RemoveResource(uri string) bool {
	return unregister(c, &resourceKind, uri)
}

// DeclareResources declares the resources capability while the server has no resources yet. Call
// it if resources are added only after clients connect. The functions that add resources and
// templates declare it, too.
func (s *Server) DeclareResources() { s.resources.offer() }

// resourceEntry is one registered resource. It is immutable.
type resourceEntry struct {
	resourceOffer
	resource mcp.Resource
	read     ResourceHandler
}

func (c *Catalog) addResource(r mcp.Resource, handler ResourceHandler, options []ResourceOption) error {
	if handler == nil {
		return errNoHandler
	}
	if r.Name == "" {
		return errNoName
	}
	if err := checkURI(r.URI, r.Source != nil); err != nil {
		return err
	}
	if err := c.checkMeta(r.Meta); err != nil {
		return err
	}
	if err := detach(&r, &r.Source); err != nil {
		return err
	}
	e := &resourceEntry{resource: r, read: handler}
	e.init(c, r.URI, options)
	return register(c, &resourceKind, e)
}

var errNoName = errors.New("name must not be empty")

// checkURI checks the URI of a definition. That of another server is any text: only that server reads it.
func checkURI(uri string, forwarded bool) error {
	switch {
	case len(uri) > maxURI:
		return fmt.Errorf("the URI has %d bytes, the limit is %d", len(uri), maxURI)
	case forwarded && uri != "":
		return nil
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

// detach replaces a definition by a deep copy, which the caller cannot modify. Source is a field
// of the definition; unless it is nil, it becomes the encoding of the copy. The definition must
// have a JSON encoding: one without would make every list fail.
func detach[T any](definition *T, source *json.RawMessage) error {
	raw, err := jsonv2.Marshal(*definition, jsontext.PreserveRawStrings(true))
	if err != nil {
		return fmt.Errorf("cannot encode the definition: %w", err)
	}
	forwarded := *source != nil
	var own T
	if err := jsonv2.Unmarshal(raw, &own); err != nil {
		return err
	}
	if *definition = own; forwarded {
		*source = raw
	}
	return nil
}

// contentsOf returns a function that converts the results of a resource handler to contents.
// It sets the MIME type if Out determines it.
func contentsOf[Out any](mimeType *string) func(Out) (*mcp.ReadResourceResult, error) {
	one := func(c mcp.ResourceContents) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{c}}, nil
	}
	var zero Out
	switch any(zero).(type) {
	case *mcp.ReadResourceResult:
		return func(out Out) (*mcp.ReadResourceResult, error) { return any(out).(*mcp.ReadResourceResult), nil }
	case []mcp.ResourceContents:
		return func(out Out) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: any(out).([]mcp.ResourceContents)}, nil
		}
	case mcp.ResourceContents:
		return func(out Out) (*mcp.ReadResourceResult, error) { return one(any(out).(mcp.ResourceContents)) }
	case string:
		return func(out Out) (*mcp.ReadResourceResult, error) {
			return one(mcp.ResourceContents{Text: any(out).(string)})
		}
	case []byte:
		return func(out Out) (*mcp.ReadResourceResult, error) {
			return one(mcp.ResourceContents{Blob: blob(any(out).([]byte))})
		}
	}
	if *mimeType == "" {
		*mimeType = "application/json"
	}
	return func(out Out) (*mcp.ReadResourceResult, error) {
		raw, err := schema.Marshal(out)
		switch {
		case err != nil:
			return nil, fmt.Errorf("cannot encode the contents: %w", err)
		case string(raw) == "null":
			return nil, ErrResourceNotFound
		}
		return one(mcp.ResourceContents{Text: string(raw)})
	}
}

// blob replaces a nil slice by an empty one: nil would mean text.
func blob(data []byte) []byte {
	if data == nil {
		return []byte{}
	}
	return data
}

// completed returns a copy of result with its missing fields filled in. It copies, because a
// handler may return the same result for several calls.
func completed(result *mcp.ReadResourceResult, uri, mimeType string, from *resourceOffer) *mcp.ReadResourceResult {
	out := *result
	out.CacheHints = from.fill(out.CacheHints)
	if slices.ContainsFunc(out.Contents, func(c mcp.ResourceContents) bool {
		return c.URI == "" || c.MimeType == "" && mimeType != ""
	}) {
		out.Contents = slices.Clone(out.Contents)
		for i := range out.Contents {
			c := &out.Contents[i]
			if c.URI == "" {
				c.URI = uri
			}
			if c.MimeType == "" {
				c.MimeType = mimeType
			}
		}
	}
	return &out
}

// messagesOf returns a function that converts the results of a prompt handler to a prompt.
func messagesOf[Out any]() (func(out Out) *mcp.GetPromptResult, error) {
	var zero Out
	switch any(zero).(type) {
	case *mcp.GetPromptResult:
		return func(out Out) *mcp.GetPromptResult { return any(out).(*mcp.GetPromptResult) }, nil
	case []mcp.PromptMessage:
		return func(out Out) *mcp.GetPromptResult {
			return &mcp.GetPromptResult{Messages: any(out).([]mcp.PromptMessage)}
		}, nil
	case string:
		return func(out Out) *mcp.GetPromptResult {
			return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{Role: mcp.RoleUser,
				Content: mcp.Text(any(out).(string))}}}
		}, nil
	}
	return nil, errors.New("the handler must return a string, []mcp.PromptMessage or *mcp.GetPromptResult")
}
