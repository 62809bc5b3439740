//go:build !unix

package use

import "os"

// pixels returns zeros: the size of the terminal in pixels is not known.
func pixels(*os.File) (width, height int) { return 0, 0 }
