//go:build !unix

package transport

import "os"

// openStdio returns the standard streams. release does nothing: the streams cannot be duplicated portably,
// and on Windows closing one waits for a Read that cannot be interrupted.
func openStdio(bool) (in, out *os.File, release func() error, err error) {
	return os.Stdin, os.Stdout, func() error { return nil }, nil
}
