package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/charmbracelet/x/term"

	"github.com/parley-mcp/parley/internal/must"
)

// programs keeps the ends of the programs open: a form asks for the size of its terminal in a goroutine that it does
// not wait for, which must not race with the close.
var programs sync.Map

// openTerminal returns both ends of a pseudo-terminal with 24 lines of 80 columns. Nothing answers the
// queries that a program writes to it.
func openTerminal(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	must.Do(t, err)
	t.Cleanup(func() { user.Close() })
	ioctl := func(request uintptr, value unsafe.Pointer) {
		_, _, code := syscall.Syscall(syscall.SYS_IOCTL, user.Fd(), request, uintptr(value))
		must.Equal(t, code, 0)
	}
	var unlocked, number int32
	ioctl(syscall.TIOCSPTLCK, unsafe.Pointer(&unlocked))
	ioctl(syscall.TIOCGPTN, unsafe.Pointer(&number))
	size := [4]uint16{24, 80} // then the size in pixels, which is not known
	ioctl(syscall.TIOCSWINSZ, unsafe.Pointer(&size))
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	must.Do(t, err)
	programs.Store(program, true)
	return user, program
}

// atTerminal is a program at a pseudo-terminal.
type atTerminal struct {
	*exec.Cmd
	t       *testing.T
	user    *os.File // the end of the user
	shown   *terminalText
	reading sync.WaitGroup
}

// startAtTerminal starts a command at a terminal of its own, which is its standard input, its standard error, and its
// standard output unless the command has another one. In raw mode the terminal passes all keys on. Otherwise Ctrl-C is
// a signal, and Enter is another key until the program changes the mode.
func startAtTerminal(t *testing.T, cmd *exec.Cmd, raw bool) *atTerminal {
	t.Helper()
	user, program := openTerminal(t)
	if raw {
		must.Do(t, must.Err(term.MakeRaw(program.Fd())))
	}
	cmd.Stdin, cmd.Stderr = program, program
	if cmd.Stdout == nil {
		cmd.Stdout = program
	}
	cmd.Env = append(cmd.Environ(), "GORACE=exitcode=0 atexit_sleep_ms=0") // see wait
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	hangUps := make(chan os.Signal, 1) // if the tests ignore them, as under nohup, a program would inherit that
	signal.Notify(hangUps, syscall.SIGHUP)
	err := cmd.Start()
	signal.Stop(hangUps)
	must.Do(t, err)
	program.Close()
	p := &atTerminal{Cmd: cmd, t: t, user: user, shown: &terminalText{written: make(chan struct{}, 1)}}
	p.reading.Go(func() {
		_, err := io.Copy(p.shown, user)
		must.CheckThat(t, err == nil || errors.Is(err, syscall.EIO), "%v", err) // EIO: the program has exited
	})
	return p
}

// terminalEnv returns the environment of a program at a terminal, with a configuration directory.
func terminalEnv(config string) []string {
	return append(os.Environ(), "TERM=xterm-256color", "PARLEY_NO_KEYRING=1", "PARLEY_CONFIG_DIR="+config)
}

// enter enters keys. They are lost if the program has exited.
func (p *atTerminal) enter(keys string) { _, _ = p.user.WriteString(keys) }

// wait waits until the program exits and the terminal has shown all of its output. A data race fails the test, but for
// the one of Bubble Tea 2.0.2: it closes the reader of a form while the goroutine that reads may still ask for its
// descriptor.
func (p *atTerminal) wait() error {
	err := p.Wait()
	p.reading.Wait()
	for _, race := range strings.Split(p.shown.String(), "WARNING: DATA RACE")[1:] {
		must.CheckContains(p.t, race, "cancelreader.(*epollCancelReader).Close()", "data race")
	}
	return err
}

// terminalText is what a program has written to a terminal.
type terminalText struct {
	mu      sync.Mutex
	text    bytes.Buffer
	written chan struct{} // capacity 1
}

func (s *terminalText) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.written <- struct{}{}:
	default:
	}
	return s.text.Write(p)
}

func (s *terminalText) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// find waits until the text matches a pattern, and returns the submatches.
func (s *terminalText) find(ctx context.Context, t *testing.T, pattern string) []string {
	t.Helper()
	m, _ := s.after(ctx, t, 0, pattern)
	return m
}

// after is like find for the text after its first from bytes. It also returns the end of the match in the text.
func (s *terminalText) after(ctx context.Context, t *testing.T, from int,
	pattern string) (submatches []string, end int) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for {
		text := s.String()[from:]
		if m := re.FindStringSubmatch(text); m != nil {
			return m, from + re.FindStringIndex(text)[1]
		}
		select {
		case <-s.written:
		case <-ctx.Done():
			t.Fatalf("the terminal does not show %s: %.4000q", pattern, text)
		}
	}
}

// A program that queries the colours of a terminal waits for seconds if the terminal does not
// answer.
func TestErrorsAndHelpDoNotQueryTheTerminal(t *testing.T) {
	program := must.Get(exec.LookPath("parley"))(t)
	for _, c := range []struct{ args, want string }{
		{"nonsense", "parley: unknown command"},
		{"ls ftp://example.com", "parley: unsupported URL"},
		{"ls --nonsense", "parley: unknown flag"},
		{"--help", "Examples:"},
		{"help call", "Usage:"},
		{"--version", "2024-11-05"},
	} {
		cmd := exec.Command(program, strings.Fields(c.args)...)
		cmd.Env = terminalEnv(t.TempDir())
		p := startAtTerminal(t, cmd, false)
		_ = p.wait() // errors have an exit code
		if text := p.shown.String(); !strings.Contains(text, c.want) || strings.Contains(text, "\x1b") {
			t.Errorf("parley %s prints %q, want %q and no escape sequences", c.args, text, c.want)
		}
	}
}

func TestListingServersSaysForWhichServerItAsksAndWaits(t *testing.T) {
	program := must.Get(exec.LookPath("parley"))(t)
	config := filepath.Join(t.TempDir(), "mcp.json")
	must.Do(t, os.WriteFile(config, []byte(`{
		"mcpServers": {
			"asks": {"command": "parley", "args": ["serve", "--stdio"], "env": {"KEY": "${input:key}"}},
			"slow": {"command": "sleep", "args": ["60"]}
		},
		"inputs": [{"type": "promptString", "id": "key", "description": "The key", "password": true}]
	}`), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "ls", "--status", "--config", config)
	cmd.Env = terminalEnv(t.TempDir())
	p := startAtTerminal(t, cmd, false)
	p.shown.find(ctx, t, "asks: The key")
	p.enter("abc\r")
	p.shown.find(ctx, t, "1/2 waiting for slow")
	p.enter("\x03")
	_ = p.wait() // interrupted
}

func TestAddAsksBeforeItResolvesPaths(t *testing.T) {
	program := must.Get(exec.LookPath("parley"))(t)
	dir := t.TempDir()
	for _, c := range []struct{ keys, want string }{{"\r", `"` + dir + `"`}, {"j\r", `"."`}} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		config := t.TempDir()
		cmd := exec.CommandContext(ctx, program, "add", "files", "--", "server", ".")
		cmd.Env, cmd.Dir = terminalEnv(config), dir
		p := startAtTerminal(t, cmd, false)
		p.shown.find(ctx, t, "Write absolute paths")
		p.shown.find(ctx, t, "No")
		p.enter(c.keys)
		if err := p.wait(); err != nil {
			t.Fatal(err, p.shown.String())
		}
		file := must.Get(os.ReadFile(filepath.Join(config, "config.json")))(t)
		must.CheckContains(t, string(file), c.want, c.keys, file)
	}
}

func TestCommandSaysAtATerminalWhatItWaitsFor(t *testing.T) {
	for _, command := range []string{"ls", "call x", "doctor"} {
		ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
		defer cancel()
		words := append(strings.Fields(command), "--", "sh", "-c", "echo fetching >&2; exec sleep 60")
		cmd := exec.CommandContext(ctx, "parley", words...)
		cmd.Env = terminalEnv(t.TempDir())
		p := startAtTerminal(t, cmd, false)
		p.shown.find(ctx, t, "waiting for .* to answer")
		p.enter("\x03")
		_ = p.wait() // interrupted
	}
}
