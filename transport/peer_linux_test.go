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
		if errno != 0 {
			t.Skip("the size of a pipe cannot be changed:", errno)
		}
		return n
	}
	for before, want := range map[uintptr]uintptr{64 << 10: 256 << 10, 512 << 10: 512 << 10} {
		r, w, err := os.Pipe()
		must.Do(t, err)
		defer r.Close()
		fcntl(w, setSize, 512<<10) // skips the test if this user has too many pipes
		fcntl(w, setSize, before)
		var stderr bytes.Buffer
		run(t, "echo", bytes.NewReader(nil), w, &stderr)
		w.Close()
		must.CheckEqual(t, fcntl(r, getSize, 0), want)
	}
}
