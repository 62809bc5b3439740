package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/cmd/parley/internal/program"
)

// At a terminal, the shell completes words, keeps a history, shows questions and changes, and cancels commands.
func TestShellAtATerminal(t *testing.T) {
	parley, err := exec.LookPath("parley")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	shell := exec.CommandContext(ctx, parley, "shell", "--", parley, "serve", "--stdio")
	shell.Env = terminalEnv(dir)
	p := startAtTerminal(t, shell, false)
	shown := p.shown
	// Each step enters keys when the terminal shows a pattern.
	typed := func(pattern, keys string) {
		t.Helper()
		shown.find(ctx, t, pattern)
		p.enter(keys)
	}
	typed(`Ctrl-D ends the shell\.\r\n.*parley> `, "\t")
	typed(`watch\r\n`, "ca\t")
	typed(`call `, "gre\t")
	typed(`call greet `, "n\t")
	typed(`name=`, "Ada\r")
	typed(`Hello, Ada!\r\n(\x1b\[[0-9;]*[A-Za-z])*parley> `, "call weather city=Oslo unit=\t")
	typed(`unit=celsius  unit=fahrenheit\r\n`, "f\t\r")
	typed(`"temperature"(?s:.*)parley> `, "prompt postcard city=Osl\t")
	typed(`postcard city=Oslo `, "\x03")                             // clears the line
	typed(`postcard city=Oslo (?s:.*)\r\nparley> $`, "\x1b[A\x1b[A") // the first command
	typed(`call greet name=Ada +\x1b\[20D$`, "\x7f\x7f\x7fGrace token=a\x03")
	shown.find(ctx, t, `token=a(?s:.*)parley> $`)
	golden(t, "testdata/shell.golden", strings.ReplaceAll(screenOf(shown.String()), program.Version(), "VERSION"))

	typed(`.`, "read demo://ci\tKyo\t\r") // a resource template, and a value of its variable
	typed(`"Kyoto"(?s:.*)parley> $`, "complete prompt postcard ci\tOs\r")
	typed(`Osaka\r\nOslo(?s:.*)parley> $`, "call shop open=true\r")
	shown.find(ctx, t, `The shop is open`)
	typed(`The list of tools has changed\.`, "call buy th\t")
	typed(`thing=`, "apples\r")
	typed(`You have bought apples(?s:.*)parley> $`, "call count to=1000 \r")
	typed(`[1-9][0-9]*/1000`, "\x03")
	typed(`parley: interrupted\r\n(?s:.*)parley> $`, "call book_table restaurant=Maaemo\r")
	typed(`ctrl\+d: decline`, "\x04")
	typed(`(?i)declined(?s:.*)parley> $`, "\x04")
	if err := p.wait(); err != nil {
		t.Errorf("%v; the terminal shows %.3000q", err, shown.String())
	}
	history, err := os.ReadFile(filepath.Join(dir, "history"))
	if err != nil || strings.Contains(string(history), "token") || !strings.HasPrefix(string(history), "call greet name=Ada\ncall weather city=Oslo unit=fahrenheit \n") {
		t.Errorf("history %q, %v", history, err)
	}
}

// golden compares text with a file. With UPDATE_GOLDEN set, it writes the file.
func golden(t *testing.T, path, text string) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("the terminal shows\n%s\nwant\n%s", text, want)
	}
}
