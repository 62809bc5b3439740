package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/must"
)

// The shell of a terminal starts parley up, whose output is a file or the terminal.
func TestUpReloadsOnSIGHUPAndEndsWithItsTerminal(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	for _, c := range []struct {
		prefix, output string
		ends           bool // parley up ends with the shell, and so with the terminal
	}{
		{"", "", true}, {"", " >log 2>&1", true}, {"nohup ", " >log 2>&1", false},
	} {
		dir := t.TempDir()
		log := filepath.Join(dir, "log")
		must.Do(t, os.WriteFile(filepath.Join(dir, "mcp.json"), []byte(`{"mcpServers": {}}`), 0o600))
		cmd := exec.CommandContext(ctx, "sh", "-c", c.prefix+"parley up --config mcp.json --addr 127.0.0.1:0"+
			c.output+" & echo pid $!; wait")
		cmd.Dir, cmd.Env = dir, terminalEnv(t.TempDir())
		shell := startAtTerminal(t, cmd, false)
		pid := must.Get(strconv.Atoi(shell.shown.find(ctx, t, `pid (\d+)`)[1]))(t)
		shown := func() string {
			if c.output == "" {
				return shell.shown.String()
			}
			content, _ := os.ReadFile(log)
			return string(content)
		}
		reloads := func(times int) {
			t.Helper()
			awaitProcess(ctx, t, "that parley up reloads its file", func() bool {
				return strings.Count(shown(), "Configuration reloaded.") == times
			})
		}
		awaitProcess(ctx, t, "the start", func() bool { return strings.Contains(shown(), "has no servers") })
		must.Do(t, os.WriteFile(filepath.Join(dir, "mcp.json"), []byte(`{"mcpServers": {}, "inputs": []}`), 0o600))
		reloads(1) // since it catches the signal
		must.Do(t, syscall.Kill(pid, syscall.SIGHUP))
		reloads(2)
		must.Do(t, shell.Process.Kill())
		_ = shell.Wait() // it was killed
		if !c.ends {
			must.Do(t, syscall.Kill(pid, syscall.SIGHUP)) // after the one of the terminal
			awaitProcess(ctx, t, "that parley up reloads its file", func() bool {
				return strings.Count(shown(), "Configuration reloaded.") >= 3
			})
			must.Do(t, syscall.Kill(pid, syscall.SIGTERM))
		}
		awaitProcess(ctx, t, "that parley up ends", func() bool { return !runs(pid) })
		shell.reading.Wait()
		must.CheckEqual(t, strings.Count(shown(), "Configuration reloaded.") == 2, c.ends, c.prefix, c.output)
	}
}

// awaitProcess waits until a condition of another process is true. It polls, because that has no event.
func awaitProcess(ctx context.Context, t *testing.T, what string, done func() bool) {
	t.Helper()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for !done() {
		select {
		case <-poll.C:
		case <-ctx.Done():
			t.Fatalf("waited %v for %s", waitLimit, what)
		}
	}
}

// runs reports whether a process has not exited. Its parent may not have waited for it yet.
func runs(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	_, rest, _ := strings.Cut(string(stat), ") ")
	return err == nil && !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}
