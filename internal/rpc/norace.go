//go:build !race

package rpc

const clearFreed = false
