//go:build !unix

package transport

import "os"

// claimStdio returns the standard streams as they are. Releasing them does nothing: they cannot be
// duplicated portably, and closing one waits, on Windows, for a Read that nothing interrupts.
func claimStdio(bool) (in, out *os.File, release func() error, err error) {
	return os.Stdin, os.Stdout, func() error { return nil }, nil
}
