package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/schema"
)

// AddResource adds a resource with a typed handler. The returned value becomes the contents:
//
//   - a string becomes text, a []byte becomes a blob;
//   - mcp.ResourceContents, []mcp.ResourceContents and *mcp.ReadResourceResult are used
//     unchanged, except that a missing URI or MIME type is filled in from r;
//   - any other value becomes its JSON encoding as text, with the MIME type application/json
//     unless r has one.
//
// A nil pointer or map and an empty slice of contents mean [call.ErrResourceNotFound]. The server
// does not modify the returned value. The handler must not modify it later. For errors and
// panics of the handler, see the package documentation.
//
// AddResource panics if r has no name, if its URI is in use, has no scheme, contains characters
// that must be percent-encoded, or has more than 8 KiB, or if a key in r.Meta is invalid.
// [Catalog.RegisterResource] returns errors instead. Both copy r and are safe while the server
// serves.
func AddResource[Out any](
	to Registrar, r mcp.Resource, handler func(ctx context.Context) (Out, error), options ...Option,
) {
	if err := addResource(to.catalog(), r, handler, options); err != nil {
		panic(fmt.Sprintf("server: resource %q: %v", r.URI, err))
	}
}

func addResource[Out any](
	c *Catalog, r mcp.Resource, handler func(ctx context.Context) (Out, error), options []Option,
) error {
	if handler == nil {
		return errNoHandler
	}
	contents, err := contentsOf[Out](&r.MimeType)
	if err != nil {
		return err
	}
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
func AddStatic[Contents string | []byte](to Registrar, r mcp.Resource, contents Contents, options ...Option) {
	if r.Size == nil {
		size := int64(len(contents))
		r.Size = &size
	}
	AddResource(to, r, func(context.Context) (Contents, error) { return contents, nil }, options...)
}

// RegisterResource adds a resource with an untyped handler. It returns an error where
// [AddResource] panics. If r has a Source, it is a resource of another server, whose URI may be any
// text. RegisterResource copies r. Safe while the server serves.
//
// A nil result of the handler and a result without contents mean [call.ErrResourceNotFound]. If URIs, MIME types or
// caching hints are missing in the result, the client receives a copy that has them. For other errors and panics, see
// the package documentation.
func (c *Catalog) RegisterResource(
	r mcp.Resource, handler func(ctx context.Context, uri string) (*mcp.ReadResourceResult, error), options ...Option,
) error {
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

// resourceEntry is one registered resource. It is immutable.
type resourceEntry struct {
	resourceOffer
	resource mcp.Resource
	read     resourceHandler
}

// resourceHandler is the handler of an untyped resource or template; see [Catalog.RegisterResource].
type resourceHandler func(ctx context.Context, uri string) (*mcp.ReadResourceResult, error)

func (c *Catalog) addResource(r mcp.Resource, handler resourceHandler, options []Option) error {
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
	e.name, e.logger = r.URI, c.logger
	if err := apply(e, options); err != nil {
		return err
	}
	c.declareFollow(&e.resourceOffer)
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
func contentsOf[Out any](mimeType *string) (func(Out) (*mcp.ReadResourceResult, error), error) {
	one := func(c mcp.ResourceContents) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{c}}, nil
	}
	var zero Out
	switch any(zero).(type) {
	case *mcp.ReadResourceResult:
		return func(out Out) (*mcp.ReadResourceResult, error) { return any(out).(*mcp.ReadResourceResult), nil }, nil
	case []mcp.ResourceContents:
		return func(out Out) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: any(out).([]mcp.ResourceContents)}, nil
		}, nil
	case mcp.ResourceContents:
		return func(out Out) (*mcp.ReadResourceResult, error) { return one(any(out).(mcp.ResourceContents)) }, nil
	case string:
		return func(out Out) (*mcp.ReadResourceResult, error) {
			return one(mcp.ResourceContents{Text: any(out).(string)})
		}, nil
	case []byte:
		return func(out Out) (*mcp.ReadResourceResult, error) {
			return one(mcp.ResourceContents{Blob: blob(any(out).([]byte))})
		}, nil
	}
	if err := schema.CheckType(reflect.TypeFor[Out]()); err != nil {
		return nil, fmt.Errorf("contents: %w", err)
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
			return nil, call.ErrResourceNotFound
		}
		return one(mcp.ResourceContents{Text: string(raw)})
	}, nil
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
	var found *foundResource
	var unknown error
	err = s.lookup(ctx, func(of *Catalog) bool {
		found, unknown = of.resourceAt(uri, c.Principal())
		return unknown == nil
	})
	if err = cmp.Or(err, unknown); err != nil {
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
	case errors.Is(err, call.ErrResourceNotFound):
		return nil, resourceNotFound(uri)
	case err != nil:
		return nil, fmt.Errorf("resource %.256q: %w", uri, err)
	case result == nil || len(result.Contents) == 0:
		// Empty contents would leave open whether the resource exists (2026-07-28,
		// server/resources, Error Handling).
		return nil, resourceNotFound(uri)
	}
	if isRelayed(&result.ResultBase) {
		copied := *result
		copied.ResultBase = relayed(result.ResultBase)
		result = &copied
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

// readersOf returns a function that reports who receives updates of a resource: the callers that can see a resource or
// template that serves it, unless UpdatesFor excludes them. It returns nil for every caller. A resource need not be
// listed: if no entry serves the URI, every subscriber is notified. A URI that is too long for the templates has no
// other readers than those of the templates that were found.
func (c *Catalog) readersOf(uri string) func(principal.Principal) bool {
	var serving []*resourceOffer
	if e, ok := c.resources.get(uri); ok {
		serving = append(serving, &e.resourceOffer)
	}
	complete := c.templates.match(uri, func(e *templateEntry, _ map[string][]string) bool {
		serving = append(serving, &e.resourceOffer)
		return true
	})
	everyone := complete && len(serving) == 0 || slices.ContainsFunc(serving,
		func(o *resourceOffer) bool { return !o.restricted() })
	if everyone && !slices.ContainsFunc(serving, func(o *resourceOffer) bool { return o.notifies != nil }) {
		return nil
	}
	return func(who principal.Principal) bool {
		sees := everyone
		for _, o := range serving {
			if !o.visibleTo(who) {
				continue
			}
			if sees = true; o.notifies != nil && !o.ask("UpdatesFor", func() bool { return o.notifies(who, uri) }) {
				return false
			}
		}
		return sees
	}
}

// resourceNotFound returns the protocol's error for a missing resource, which is downgraded for
// revisions with another code.
func resourceNotFound(uri string) *jsonrpc.Error {
	data, _ := json.Marshal(mcp.ResourceNotFoundData{URI: uri}) // a string
	return &jsonrpc.Error{Code: mcp.CodeResourceNotFound, Message: "resource not found", Data: data}
}
