package rpc

import "github.com/parley-mcp/parley/internal/revision"

// Can reports whether the revision of the call has a feature. Features of a server ask the call
// instead of comparing revisions.
func (c *Call) Can(f revision.Feature) bool { return f.In(c.Revision()) }
