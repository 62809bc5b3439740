package mcp

import "slices"

// Revision is a revision of the protocol, identified by its date. A peer may send unknown values. A
// later revision is greater, compared as a string.
type Revision string

// The revisions of the protocol.
const (
	V20241105 Revision = "2024-11-05"
	V20250326 Revision = "2025-03-26"
	V20250618 Revision = "2025-06-18"
	V20251125 Revision = "2025-11-25"
	V20260728 Revision = "2026-07-28"

	// Latest is the latest revision.
	Latest = V20260728
	// LatestLegacy is the latest revision with sessions and the initialize handshake.
	LatestLegacy = V20251125
)

// Revisions returns all known revisions, latest first. The caller owns the slice.
func Revisions() []Revision {
	return []Revision{V20260728, V20251125, V20250618, V20250326, V20241105}
}

// Known reports whether r is one of [Revisions].
func (r Revision) Known() bool {
	return slices.Contains(Revisions(), r)
}

// Modern reports whether r is 2026-07-28 or later, which have neither sessions nor a handshake. An
// unknown revision is classified by its date.
func (r Revision) Modern() bool {
	return r >= V20260728
}
