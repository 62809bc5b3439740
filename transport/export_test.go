package transport

import (
	"io"
	"os"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/must"
)

// StreamOf returns a Stream with separate ends, as Stdio and StartCommand use it.
func StreamOf(r io.Reader, w io.Writer, closeEnds func() error) Conn {
	return newStream(r, w, closeEnds, StreamOptions{})
}

// The process may run so late that its deadline has passed when it reads. It still reads the last
// output of the child.
func TestLastOutputIsReadAfterTheDeadline(t *testing.T) {
	r, w, err := os.Pipe()
	must.Do(t, err)
	defer r.Close()
	defer w.Close() // as if another process also had it open
	must.Get(w.WriteString("bye\n"))(t)
	o := &childOutput{file: r}
	b := make([]byte, 10)
	if n, err := o.readLast(b, time.Nanosecond); string(b[:n]) != "bye\n" || err != nil {
		t.Errorf("read %q, %v", b[:n], err)
	}
}
