package server

import (
	"github.com/parley-mcp/parley/principal"
)

// Option is an option of tools, prompts, resources, templates and directories.
type Option interface {
	ToolOption
	PromptOption
	ResourceOption
}

// ToolOption is an option of a tool: see [VisibleTo], [RequireScopes] and [NotSecret].
type ToolOption interface{ ofTool(*toolEntry) }

// PromptOption is an option of a prompt: see [VisibleTo] and [RequireScopes].
type PromptOption interface{ ofPrompt(*promptEntry) }

// ResourceOption is an option of a resource, a template or a directory: see [VisibleTo],
// [RequireScopes], [Cached] and [WhileSubscribed].
type ResourceOption interface{ ofResource(*resourceOffer) }

// VisibleTo shows a tool, prompt, resource or template only to the callers for whom visible
// returns true. The name is the name of the tool or prompt, the URI of the resource, or the URI
// template of the template or directory. With several VisibleTo options, all must return true.
//
// For other callers the entry does not exist: they cannot list, call, read, complete or
// subscribe to it, and are not notified of its changes. A hidden resource can still be read
// through a template that the caller can see and that matches its URI.
//
// The function must decide by the authorization of the caller, and return the same result for
// all requests of a principal (2026-07-28, server/tools, Listing Tools). The caller is
// principal.Anonymous without authentication, and principal.Local on standard input. The
// function is called for each request and for each entry of a list, so it should be fast. It
// must be safe for concurrent use. If it panics, the entry is hidden, and the panic is logged.
//
// A list with such an entry is computed for each caller, and its cache scope is private,
// whatever [Server.ListCache] is. VisibleTo panics if visible is nil.
func VisibleTo(visible func(caller principal.Principal, name string) bool) Option {
	if visible == nil {
		panic("server: VisibleTo: the function must not be nil")
	}
	return visibleTo(visible)
}

type visibleTo func(who principal.Principal, name string) bool

func (v visibleTo) ofTool(e *toolEntry)         { e.sees = append(e.sees, v) }
func (v visibleTo) ofPrompt(e *promptEntry)     { e.sees = append(e.sees, v) }
func (v visibleTo) ofResource(e *resourceOffer) { e.sees = append(e.sees, v) }
