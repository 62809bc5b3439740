package mcp

// Root is a directory or file that a server may work on. Deprecated since 2026-07-28: servers use tool
// parameters or their configuration instead.
type Root struct {
	// URI is a file:// URI.
	URI string `json:"uri"`
	// Name is the name for display.
	Name string `json:"name,omitempty"`
	// Meta is the metadata of the root. Since 2025-06-18.
	Meta Meta `json:"_meta,omitzero"`
}

// ListRootsResult is the result of roots/list, whose parameters are [EmptyParams].
type ListRootsResult struct {
	ResultBase

	// Roots are the roots of the client.
	Roots []Root `json:"roots"`
}

// MarshalJSON implements json.Marshaler.
func (r ListRootsResult) MarshalJSON() ([]byte, error) {
	type plain ListRootsResult
	return encode((*plain)(&r))
}
