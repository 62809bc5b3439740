package server

import (
	"log/slog"
	"runtime/debug"

	"github.com/parley-mcp/parley/principal"
)

// Option says more about what is offered, be it a tool, a prompt, a resource or a
// template.
type Option interface {
	ToolOption
	PromptOption
	ResourceOption
}

// ToolOption says more about a tool: see [VisibleTo], [RequireScopes] and [NotSecret].
type ToolOption interface{ ofTool(*toolEntry) }

// PromptOption says more about a prompt: see [VisibleTo] and [RequireScopes].
type PromptOption interface{ ofPrompt(*promptEntry) }

// ResourceOption says more about a resource, a template or a directory: see
// [VisibleTo], [RequireScopes] and [Cached].
type ResourceOption interface{ ofResource(*resourceOffer) }

// VisibleTo shows what is offered to those callers only for whom sees returns true. It
// is given who calls and what is asked for: the name of the tool or prompt, the URI of
// the resource, the URI template of the template or directory. With several, all have
// to return true.
//
// From everybody else it is hidden: it is not listed, cannot be called, read, completed
// or subscribed to, changes of it are not reported, and whoever asks for it is answered
// as if it were not there. A URI of a hidden resource may still be served by a template
// that the caller sees, as any other URI may.
//
// Sees decides by authorization: everybody is principal.Anonymous where nobody
// authenticates, and principal.Local on a connection that has no better to say. It must
// not decide by anything that differs between two requests of one principal, such as
// their connections (2026-07-28, server/tools, Listing Tools). It is asked for each
// request and each entry of a list, so it should be quick; it must be safe for
// concurrent use. If it panics, the answer is false, and a line in the log.
//
// Lists with something of the kind are made for each caller, and are private to their
// caches, whatever [Server.ListCache] says.
func VisibleTo(sees func(who principal.Principal, name string) bool) Option {
	if sees == nil {
		panic("server: VisibleTo: the function is nil: leave the option out to show something to everybody")
	}
	return visibleTo(sees)
}

type visibleTo func(who principal.Principal, name string) bool

func (v visibleTo) ofTool(e *toolEntry)         { e.sees = append(e.sees, v) }
func (v visibleTo) ofPrompt(e *promptEntry)     { e.sees = append(e.sees, v) }
func (v visibleTo) ofResource(e *resourceOffer) { e.sees = append(e.sees, v) }

// offer is what everything that is offered has in common: to whom it is. It does not
// change.
type offer struct {
	name   string // as VisibleTo knows it
	sees   []visibleTo
	scopes []string // see RequireScopes
	logger func() *slog.Logger
}

// restricted reports whether there is anybody to hide from.
func (o *offer) restricted() bool { return len(o.sees) > 0 }

func (o *offer) visibleTo(who principal.Principal) bool {
	for _, sees := range o.sees {
		if !o.ask(sees, who) {
			return false
		}
	}
	return true
}

// ask asks the program. What fails to say yes says no: an error would tell that there
// is something.
func (o *offer) ask(sees visibleTo, who principal.Principal) (yes bool) {
	defer func() {
		if v := recover(); v != nil {
			o.logger().Error("VisibleTo panicked: it is hidden", "name", o.name, "panic", v, "stack", string(debug.Stack()))
			yes = false
		}
	}()
	return sees(who, o.name)
}

// audience returns who is to hear of changes; nil for everybody.
func (o *offer) audience() func(principal.Principal) bool {
	if !o.restricted() {
		return nil
	}
	return o.visibleTo
}
