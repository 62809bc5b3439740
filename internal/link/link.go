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
	"log/slog"
	"reflect"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/schema"
)

// Server has methods of a *server.Server and of its catalogs.
type Server[S, Catalog, Option any] struct {
	// Hooks returns the functions that s calls. They must be set before s serves.
	Hooks func(s *S) *Hooks
	// Declare declares the capabilities for tools/call, prompts/get, resources/read and completion/complete even while
	// nothing has them. It ignores other methods.
	Declare func(of *Catalog, methods ...string)
	// Origin makes Hide of Hooks decide about an entry. An entry without it is not hidden.
	Origin func(origin any) Option
	// Completes completes all arguments of a prompt, and all variables of a template.
	Completes func(complete Completer) Option
	// RemoveExtension removes an extension, and reports whether the server had it. Requests in flight continue.
	RemoveExtension func(of *Catalog, id string) bool
	// Tool returns the definition and the origin of a tool that a caller can see, hidden or not; nil if there is none.
	Tool func(of *Catalog, caller principal.Principal, name string) (tool *mcp.Tool, origin any)
	// ForwardTool adds a tool of another server, whose schemas need not be valid.
	ForwardTool func(to *Catalog, logger *slog.Logger, tool mcp.Tool, handler ToolHandler, options ...Option) error
	// Within counts the memory of the schemas of a forwarded tool towards a budget until the tool is removed. Without
	// it, all forwarded tools of a catalog share one budget.
	Within func(budget *schema.Budget) Option
	// RegisterToolCaller adds a tool with which clients call other tools, which target names.
	RegisterToolCaller func(to *Catalog, tool mcp.Tool, target ToolTarget, options ...Option) error
	// RecheckSubscriptions makes s decide again whether clients may subscribe to resources.
	RecheckSubscriptions func(s *S)
	// ResourceUpdated notifies the clients of one caller that the contents of a resource have changed.
	ResourceUpdated func(s *S, caller principal.Principal, uri string)
}

// Hooks are functions that a server calls, if they are not nil. They must be safe for concurrent use, and must not
// panic. Only Listening may block.
type Hooks struct {
	// Hide returns a function that reports which entries are left out of a list for a caller, by their origin, or nil
	// if none is. List is the method, such as tools/list. The caller can still use them. A list with a function is
	// computed for each caller.
	Hide func(caller principal.Principal, list string) func(origin any) bool
	// HideUpdate reports whether a caller is not notified of updates of a resource.
	HideUpdate func(caller principal.Principal, uri string) bool
	// Uniform means that Server.Catalogs returns catalogs for every caller or for none: a list without them is the same
	// for all. Completions and tasks are declared when an entry has them.
	Uniform bool
	// Instructions returns the instructions of the server. Connected clients keep the former ones.
	Instructions func() string
	// RootsChanged is called when the client of a session notifies the server that its roots have changed.
	RootsChanged func(ctx context.Context)
	// Closed reports whether clients cannot subscribe to a URI that the server does not have for their caller.
	Closed func() bool
	// Listening is called in a new goroutine when the first client of an authenticated caller subscribes to changes of
	// lists; a session does so when its client opens the stream for notifications. The context has the caller. It ends
	// when the last client of the caller has unsubscribed, or the server shuts down. Listening must return then. It can
	// watch lists that change elsewhere, and call Server.CatalogsChanged. A server calls it for at most 10,000 callers
	// at a time, and logs a warning if more have subscribed.
	Listening func(ctx context.Context)
	// Outdated is called when another replica that shares the Bus has called Server.CatalogsChanged for a caller. Its
	// argument is the principal.Principal.Key of the caller. It is empty if messages of other replicas may be lost: the
	// catalogs of any caller may have changed then. Outdated reports whether this replica may have listed the previous
	// ones for the caller. Its clients are notified again then, because one of them may have requested the lists here
	// after the first notification and before this call.
	Outdated func(caller string) (shown bool)
}

// ToolHandler is the handler of a tool; see server.Catalog.RegisterTool.
type ToolHandler = func(ctx context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error)

// Completer returns values for an argument of which value is typed; see server.Complete.
type Completer func(ctx context.Context, argument, value string, arguments map[string]string) (*mcp.Completion, error)

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
