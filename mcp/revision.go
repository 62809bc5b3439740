package mcp

import "slices"

// Revision is the date that names a revision of the protocol. Values that arrive from a peer may be
// unknown ones. Revisions compare as strings: a later one is greater.
type Revision string

// The revisions of the protocol.
const (
	V20241105 Revision = "2024-11-05"
	V20250326 Revision = "2025-03-26"
	V20250618 Revision = "2025-06-18"
	V20251125 Revision = "2025-11-25"
	V20260728 Revision = "2026-07-28"

	// Latest is the newest revision.
	Latest = V20260728
	// LatestLegacy is the newest revision that begins with an initialize handshake.
	LatestLegacy = V20251125
)

// Revisions returns all known revisions, newest first. The slice belongs to the caller.
func Revisions() []Revision {
	return []Revision{V20260728, V20251125, V20250618, V20250326, V20241105}
}

// Known reports whether r is one of [Revisions].
func (r Revision) Known() bool {
	return slices.Contains(Revisions(), r)
}

// Modern reports whether r is without sessions and handshake, as the protocol is since 2026-07-28.
// It answers for unknown revisions by their date.
func (r Revision) Modern() bool {
	return r >= V20260728
}
