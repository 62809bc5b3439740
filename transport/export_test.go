package transport

import "io"

// StreamOf is Stream with separate ends, as Stdio and StartCommand use it.
func StreamOf(r io.Reader, w io.Writer, closeEnds func() error) Conn {
	return newStream(r, w, closeEnds, StreamOptions{})
}
