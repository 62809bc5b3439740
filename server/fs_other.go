//go:build !unix

package server

// openFlags is 0, because directories of these systems contain no pipes.
const openFlags = 0
