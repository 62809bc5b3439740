//go:build race

package rpc

// clearFreed makes FreeBuffer clear each buffer, so that a test with the race detector fails if
// something still refers to one.
const clearFreed = true
