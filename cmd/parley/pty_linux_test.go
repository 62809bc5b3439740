package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// openTerminal returns both ends of a pseudo-terminal with 24 lines of 80 columns. Nothing answers the
// queries that a program writes to it.
func openTerminal(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { user.Close() })
	ioctl := func(request uintptr, value unsafe.Pointer) {
		if _, _, code := syscall.Syscall(syscall.SYS_IOCTL, user.Fd(), request, uintptr(value)); code != 0 {
			t.Fatal(code)
		}
	}
	var unlocked, number int32
	ioctl(syscall.TIOCSPTLCK, unsafe.Pointer(&unlocked))
	ioctl(syscall.TIOCGPTN, unsafe.Pointer(&number))
	size := [4]uint16{24, 80} // then the size in pixels, which is not known
	ioctl(syscall.TIOCSWINSZ, unsafe.Pointer(&size))
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return user, program
}

// A program that queries the colours of a terminal waits for seconds if the terminal does not
// answer.
func TestErrorsAndHelpDoNotQueryTheTerminal(t *testing.T) {
	program, err := exec.LookPath("parley")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"nonsense", "parley: unknown command"},
		{"ls ftp://example.com", "parley: unsupported URL"},
		{"ls --nonsense", "parley: unknown flag"},
		{"--help", "Usage:"},
		{"help call", "Usage:"},
		{"--version", "parley version"},
	} {
		user, terminal := openTerminal(t)
		cmd := exec.Command(program, strings.Fields(c.args)...)
		cmd.Env = append(os.Environ(), "TERM=xterm-256color")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		terminal.Close()
		output, err := io.ReadAll(user)
		if err != nil && !errors.Is(err, syscall.EIO) { // EIO: the program has exited
			t.Error(err)
		}
		_ = cmd.Wait() // errors have an exit code
		if text := string(output); !strings.Contains(text, c.want) || strings.Contains(text, "\x1b") {
			t.Errorf("parley %s prints %q, want %q and no escape sequences", c.args, text, c.want)
		}
	}
}
