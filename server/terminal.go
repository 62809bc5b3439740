//go:build !windows

package server

import "os"

// isTerminal reports whether f is a terminal: a character device other than the null
// device, which is the standard input of services.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
