//go:build !linux && !darwin && !freebsd

package transport

import "os"

// unreadBytes reports that the number is not known.
func unreadBytes(*os.File) (n int32, known bool) { return 0, false }
