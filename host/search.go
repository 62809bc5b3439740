package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Search returns the tools of [Host.Tools] that match a query, the best match first. It compares the words of
// the query with the names, titles, descriptions and argument names of the tools by BM25. Tools that match equally have the order of Host.Tools, and an empty query matches all tools.
// Search returns at most limit tools; 0 means all that match. It waits for no server. The caller owns the
// slice. It must not modify the definitions.
//
// The tools of a server with [ServerConfig.CallerAuth] are those that it lists for the caller of ctx, if that list is known.
//
// A model that cannot use the definitions of all tools at once searches for tools instead, and [Host.Describe]
// returns the definition of one that it wants to call with [Host.Call].
func (h *Host) Search(ctx context.Context, query string, limit int) []MergedTool {
	cs := h.catalogs(ctx)
	if strings.TrimSpace(query) != "" {
		ranked := cs.rank(query)
		if limit > 0 {
			ranked = ranked[:min(limit, len(ranked))]
		}
		found := make([]MergedTool, len(ranked))
		for i, document := range ranked {
			found[i] = *cs.document(int(document))
		}
		return found
	}
	n := cs.size()
	if limit > 0 {
		n = min(limit, n)
	}
	found := make([]MergedTool, 0, n)
	for _, c := range cs {
		found = append(found, c.tools[:min(n-len(found), len(c.tools))]...)
	}
	return found
}

// Describe returns a tool by its name in the merged list, for the caller of ctx. If the list of its server is not known
// yet, Describe waits for the server as [Host.Call] does. It returns ErrUnknownServer or ErrUnknownTool if there is no such
// tool. The caller must not modify the definition.
func (h *Host) Describe(ctx context.Context, name string) (MergedTool, error) {
	if tool, ok := h.catalogs(ctx).named(name); ok {
		return tool, nil
	}
	if _, _, err := h.resolve(ctx, name); err != nil {
		return MergedTool{}, err
	}
	if tool, ok := h.catalogs(ctx).named(name); ok {
		return tool, nil
	}
	return MergedTool{}, fmt.Errorf("%w: %q", ErrUnknownTool, name)
}

// toolsVersion returns a digest of the names and definitions of the tools that [Host.Search] finds for the caller of ctx, in their
// order. A program that keeps a result of Search or Describe compares versions to find out whether a tool was added,
// removed or changed. Hosts with the same tools have the same version.
func (h *Host) toolsVersion(ctx context.Context) string {
	digest := sha256.New()
	for _, c := range h.catalogs(ctx) {
		digest.Write(c.digest[:])
	}
	return hex.EncodeToString(digest.Sum(nil)[:8])
}
