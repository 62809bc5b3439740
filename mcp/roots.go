package mcp

// Root is a directory or file that the client lets a server work on. Roots are deprecated by
// 2026-07-28; servers take paths and URIs as tool parameters or from their configuration.
type Root struct {
	// URI begins with file://.
	URI  string `json:"uri"`
	Name string `json:"name,omitempty"` // for people
	Meta Meta   `json:"_meta,omitzero"` // since 2025-06-18
}

// ListRootsResult answers roots/list, which takes [EmptyParams].
type ListRootsResult struct {
	ResultBase

	Roots []Root `json:"roots"`
}

// MarshalJSON implements json.Marshaler.
func (r ListRootsResult) MarshalJSON() ([]byte, error) {
	type plain ListRootsResult
	return encode((*plain)(&r))
}
