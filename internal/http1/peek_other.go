//go:build !unix

package http1

const canPeek = false

func isOpen(uintptr) bool { return false }
