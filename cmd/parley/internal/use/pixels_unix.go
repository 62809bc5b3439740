//go:build unix

package use

import (
	"os"

	"golang.org/x/sys/unix"
)

// pixels returns the size of a terminal in pixels, or zeros if it is not known.
func pixels(f *os.File) (width, height int) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0
	}
	return int(size.Xpixel), int(size.Ypixel)
}
