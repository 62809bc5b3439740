package client

import (
	"slices"

	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/mcp"
)

// Change is an element of [Client.Watch]: a list or a resource of the server that changed.
type Change struct {
	Kind ChangeKind
	URI  string // the resource, for ResourceUpdated
	// Resync is set when the watch begins, and again after each reconnect, once for each
	// list and resource that is watched. The server has reported no change, but the client
	// may have missed some: list or read it now.
	Resync bool
}

// ChangeKind is what a [Change] is about. Its values are bits.
type ChangeKind uint8

// The kinds of changes.
const (
	// ToolsChanged means that the list of tools changed.
	ToolsChanged ChangeKind = 1 << iota
	// PromptsChanged means that the list of prompts changed.
	PromptsChanged
	// ResourcesChanged means that the list of resources or of resource templates changed.
	ResourcesChanged
	// ResourceUpdated means that the contents of the resource Change.URI changed.
	ResourceUpdated
)

// The values are those of package rpc: an index out of range does not compile.
var _ = [1]struct{}{}[ToolsChanged-ChangeKind(changes.ToolsChanged)|ResourceUpdated-ChangeKind(changes.ResourceUpdated)]

// String returns the method of the notification without its prefix, such as
// "tools/list_changed".
func (k ChangeKind) String() string { return changes.Kind(k).String() }

// WatchFilter selects what [Client.Watch] watches. The zero value selects all lists and no
// resources.
type WatchFilter struct {
	Tools     bool // the list of tools
	Prompts   bool // the list of prompts
	Resources bool // the lists of resources and of resource templates
	// URIs are resources whose contents to watch: at most 1,024, of at most 8 KiB each and
	// 1 MiB together. For the URI of a directory, a server may also report changes of the
	// files in it.
	URIs []string
}

func (f *WatchFilter) subscription() mcp.SubscriptionFilter {
	if !f.Tools && !f.Prompts && !f.Resources && len(f.URIs) == 0 {
		return mcp.SubscriptionFilter{ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true}
	}
	return mcp.SubscriptionFilter{
		ToolsListChanged: f.Tools, PromptsListChanged: f.Prompts, ResourcesListChanged: f.Resources,
		ResourceSubscriptions: slices.Clone(f.URIs),
	}
}

// errWatchUnsupported is the error of [Client.Watch] if the server does not report any of
// the changes in the [WatchFilter]: it does not declare the capabilities (listChanged, or
// subscribe for the contents of resources), or does not acknowledge the subscription.
var errWatchUnsupported = revision.MissingFeature("the server does not report these changes")
