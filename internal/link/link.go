// Package link has functions of public packages that other packages of this module use, but programs do not: those of a
// Host that a gateway needs.
//
// A package sets its functions when it is initialized, and its importers get them. The types of the package are type
// parameters, because this package cannot import it. The functions are methods that are not exported, so the compiler checks
// their types on both sides.
package link

import (
	"context"
	"fmt"
	"reflect"
	"time"

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

var links = make(map[reflect.Type]any)

// Set sets functions. Only the init function of the package that has them calls it.
func Set[L any](functions L) { links[reflect.TypeFor[L]()] = functions }

// Get returns the functions that Set has set. It panics if there are none, because the type parameters are others or the
// package that has them is not imported.
func Get[L any]() L {
	functions, ok := links[reflect.TypeFor[L]()].(L)
	if !ok {
		panic(fmt.Sprintf("link: %v is not set", reflect.TypeFor[L]()))
	}
	return functions
}
