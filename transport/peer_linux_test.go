package transport_test

import (
	"bytes"
	"os"
	"syscall"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

// A large message would wait for its reader at each 64 KiB.
func TestStdioEnlargesThePipeOfStdout(t *testing.T) {
	const setSize, getSize = 1031, 1032
	fcntl := func(f *os.File, command, arg uintptr) uintptr {
		t.Helper()
		n, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), command, arg)
		must.That(t, errno == 0, "cannot change the size of a pipe: %v", errno)
		return n
	}
	for before, want := range map[uintptr]uintptr{64 << 10: 256 << 10, 512 << 10: 512 << 10} {
		r, w, err := os.Pipe()
		must.Do(t, err)
		defer r.Close()
		fcntl(w, setSize, before)
		var stderr bytes.Buffer
		run(t, "echo", bytes.NewReader(nil), w, &stderr)
		w.Close()
		must.CheckEqual(t, fcntl(r, getSize, 0), want)
	}
}
