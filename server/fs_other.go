//go:build !unix

package server

// openFlags are none, because directories of these systems contain no pipes.
const openFlags = 0
