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
	"fmt"
	"reflect"
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
