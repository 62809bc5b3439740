package transport

import "io"

// StreamOf is Stream over separate ends, as Stdio and Command use it.
func StreamOf(r io.Reader, w io.Writer, closeEnds func() error) Conn {
	return newStream(r, w, closeEnds, StreamOptions{})
}
