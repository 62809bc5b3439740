// Package link has functions of public packages that other packages of this module use, but programs do not: those of
// a Client that a Host needs, and those of a Host and a Server that a gateway needs.
//
// A package sets its functions when it is initialized, and its importers get them. The types of the package are type
// parameters, because this package cannot import it. The functions are methods that are not exported, so the compiler
// checks their types on both sides.
package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// Host has methods of a *host.Host.
type Host[H, Status, Request any] struct {
	// Forward sends requests of servers to the client whose request a handler of the program serves. It must be
	// called before Start, and returns an error otherwise.
	Forward func(*H) error
	// CallerStatus returns the status of a server with the lists that it sends to the caller of ctx, which are at most
	// maxAge old.
	CallerStatus func(h *H, ctx context.Context, server string, maxAge time.Duration) (Status, error)
	// WatchCaller calls changed each time these lists have changed, until ctx ends.
	WatchCaller func(h *H, ctx context.Context, server string, changed func()) error
	// OutdateCallers makes the Host request the lists of some callers again.
	OutdateCallers func(h *H, of func(caller principal.Principal) bool) (found bool)
	// PermitSubscription returns nil if the caller of ctx may subscribe to a resource.
	PermitSubscription func(h *H, ctx context.Context, server, uri string) error
	// PolicyChanges returns a channel that the next call of Host.PolicyChanged closes.
	PolicyChanges func(*H) <-chan struct{}
	// Hides returns a function that reports whether the policy denies all requests of a caller for an entry, or nil if
	// it denies none so.
	Hides func(h *H, caller principal.Principal) func(*Request) bool
	// ToolsVersion returns a digest of the tools that the caller of ctx can find.
	ToolsVersion func(h *H, ctx context.Context) string
	// Attribute returns a message of a server for a user, with the name of the server.
	Attribute func(h *H, server, message string) string
}

// Extensions has methods of a *host.Host for the extensions of its servers.
type Extensions[H, Option any] struct {
	// Call sends a request of an extension to a server, and returns its result, a JSON object. Params is a JSON object
	// without _meta, or nil.
	Call func(h *H, ctx context.Context, server, method string, params json.RawMessage,
		options ...Option) (json.RawMessage, error)
	// Notify sends a notification of an extension to a server.
	Notify func(h *H, ctx context.Context, server, method string, params json.RawMessage) error
}

// Approval has methods of a *host.Approval.
type Approval[A any] struct {
	// Digest identifies the request and its caller. An answer for one digest must not count for another.
	Digest func(*A) string
}

// ServerConfig has methods of a *host.ServerConfig.
type ServerConfig[C any] struct {
	// Check returns an error if the name, the prefix, the revision, a selection or an extension is invalid.
	Check func(*C) error
	// Prefix returns the beginning of the merged names of the server's tools and prompts. It may be empty.
	Prefix func(*C) string
}

// MetaServer is the member of _meta with the name of the server, in requests of servers that a Host forwards.
const MetaServer = "com.github.parley-mcp/server"

// ResultURI is what the URIs of large results begin with; see host.ServerConfig.MaxResult. The name of the server
// follows, a slash, and an id.
const ResultURI = "parley:result/"

// maxServerName is the maximum length of a server name. It leaves at least 62 of the
// 128 characters of a merged name to the tool.
const maxServerName = 64

// CheckServerName returns nil if name can be the name of a server: 1 to 64 ASCII letters,
// digits, hyphens and underscores. Two underscores separate the name of a server from
// that of a tool, so a name must not contain two in a row or end with one.
func CheckServerName(name string) error {
	if name == "" || len(name) > maxServerName {
		return fmt.Errorf("server name %.80q must have 1 to %d characters", name, maxServerName)
	}
	for _, c := range []byte(name) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
			return fmt.Errorf("server name %q must have only letters, digits, hyphens and underscores", name)
		}
	}
	if strings.Contains(name, "__") || strings.HasSuffix(name, "_") {
		return fmt.Errorf("server name %q must not contain two underscores in a row or end with an underscore: "+
			"they separate the names of servers and tools", name)
	}
	return nil
}

// ErrAnonymousCaller is the error of requests without an authenticated caller to a server with
// host.ServerConfig.CallerAuth.
var ErrAnonymousCaller = errors.New("host: the server requires the credentials of the caller, and the caller is not " +
	"authenticated")

// Client has methods of a *client.Client, and options of its requests.
type Client[C, Option any] struct {
	// KeepsSession reports whether the server keeps a session for the latest connection over HTTP: one with a session
	// id, or one of HTTP+SSE. What callers do in it may affect each other. It is false before the first request if
	// Dialer.Discovery was used.
	KeepsSession func(*C) bool
	// UndecodedText leaves the texts of the result of a tool undecoded; it is also client.WithSource.
	UndecodedText func() Option
	// WithoutReconnect ends a watch when the connection is lost.
	WithoutReconnect func() Option
}

// Server has methods of a *server.Server.
type Server[S, Handler, Option any] struct {
	// Hooks returns the functions that s calls. They must be set before s serves.
	Hooks func(s *S) *Hooks
	// ForwardTool adds a tool of another server, whose schemas need not be valid.
	ForwardTool func(s *S, tool mcp.Tool, handler Handler, options ...Option) error
	// RegisterToolCaller adds a tool with which clients call other tools, which target names.
	RegisterToolCaller func(s *S, tool mcp.Tool, target ToolTarget, options ...Option) error
	// LookupTool returns the definition of a tool that the caller of ctx can see.
	LookupTool func(s *S, ctx context.Context, name string) (tool mcp.Tool, ok bool)
	// UnlistTools leaves tools out of tools/list.
	UnlistTools func(s *S, names ...string)
	// RecheckSubscriptions makes s decide again whether clients may subscribe to resources.
	RecheckSubscriptions func(s *S)
	// SetInstructions replaces the instructions of s.
	SetInstructions func(s *S, text string)
}

// Hooks are functions that a server calls, if they are not nil.
type Hooks struct {
	// Hide returns a function that reports what is hidden from a caller, or nil if nothing is. List is the method
	// of a list, such as tools/list, and name the name, URI or URI template of an entry, which is left out of the
	// list and of LookupTool. If list is resources/subscribe, name is a URI, and the caller is not notified of its
	// updates. The caller can still use what is hidden. Lists with a function are computed for each caller. Hide and
	// the function must be safe for concurrent use and fast, and must not panic. See Server.CatalogsChanged.
	Hide func(caller principal.Principal) func(list, name string) bool
	// UnknownSubscription is called when a client wants to subscribe to a URI that the server does not have for its
	// caller. The server then looks for the URI again, and rejects the subscription with the error if it still does
	// not have it. It must be safe for concurrent use.
	UnknownSubscription func(ctx context.Context, uri string) error
}

// ToolTarget returns the name and the arguments of a tool for the arguments of one that calls others.
type ToolTarget func(arguments json.RawMessage) (name string, targetArguments json.RawMessage, err error)

var links = make(map[reflect.Type]any)

// Set sets functions. Only the init function of the package that has them calls it.
func Set[L any](functions L) { links[reflect.TypeFor[L]()] = functions }

// Get returns the functions that Set has set. It panics if there are none, because the type parameters are others or
// the package that has them is not imported.
func Get[L any]() L {
	functions, ok := links[reflect.TypeFor[L]()].(L)
	if !ok {
		panic(fmt.Sprintf("link: %v is not set", reflect.TypeFor[L]()))
	}
	return functions
}
