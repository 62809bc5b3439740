//go:build integration

package main

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/cmd/parley/demo"
)

// shellSetup is the start of an interactive shell whose prompt is READY>.
type shellSetup struct {
	args  []string
	files map[string]string // in the home directory; ROOT is the directory of the unpacked packages
}

var shellSetups = map[string]shellSetup{
	"bash": {[]string{"--noprofile", "--rcfile", ".rc", "-i"}, map[string]string{
		".rc": "PS1='READY> '\nsource ROOT/usr/share/bash-completion/bash_completion\nsource <(parley completion bash)\n",
	}},
	"zsh": {[]string{"-i"}, map[string]string{
		".zshenv": "module_path=(ROOT/usr/lib/*-linux-gnu/zsh/*)\nfpath=(ROOT/usr/share/zsh/functions/**/*(/))\n",
		".zshrc":  "autoload -U compinit\ncompinit -u -D\nsource <(parley completion zsh)\nPS1='READY> '\n",
	}},
	"fish": {[]string{"--no-config", "-i", "-C", "source .fish"}, map[string]string{
		".fish": "function fish_prompt; echo 'READY> '; end\nparley completion fish | source\n",
	}},
}

// The user presses Tab in each shell, and the shell runs the completed command.
func TestShellsCompleteCommandLines(t *testing.T) {
	root, err := filepath.Abs("../../.tools/shells/root")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(root); err != nil {
		t.Fatalf("%v; run make tools", err)
	}
	s := httptest.NewServer(demo.New("0"))
	t.Cleanup(s.Close)
	for name, setup := range shellSetups {
		t.Run(name, func(t *testing.T) {
			program := filepath.Join(filepath.Dir(root), name)
			if name == "bash" {
				program = "bash"
			}
			shell := startShell(t, program, root, setup)
			shell.run(t, "parley ls "+s.URL+"\r", `PROMPT +ARGUMENTS`)
			// Tools, names and values of arguments, a value of the server, a resource of a template, a URL, a flag.
			shell.run(t, "parley cal\t"+s.URL+" wea\tcity=Oslo un\tf\t\r", `"unit":"fahrenheit"`)
			shell.run(t, "parley prompt "+s.URL+" postc\tcit\tOsl\t\r", `(?s)user:.*Oslo`)
			shell.run(t, "parley read "+s.URL+" demo://cit\tKyo\t\r", `"name":"Kyoto"`)
			shell.run(t, "parley ping htt\t\r", `connected in .* ping answered`)
			shell.run(t, "parley ls --conf\tmcp.json thir\t\r", `PROMPT +ARGUMENTS`)
			// Nothing is offered for an unknown tool.
			shell.run(t, "parley call "+s.URL+" nothi\t\r", `unknown tool "nothi"`)
		})
	}
}

// testShell is an interactive shell at a terminal.
type testShell struct {
	*atTerminal
	ctx  context.Context
	seen int // bytes of the text that were before the last command
}

func startShell(t *testing.T, program, root string, setup shellSetup) *testShell {
	t.Helper()
	home := t.TempDir()
	for name, text := range setup.files {
		if err := os.WriteFile(filepath.Join(home, name), []byte(strings.ReplaceAll(text, "ROOT", root)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(home, "mcp.json"), []byte(`{"mcpServers":{"first":{"command":"x"},"third":{"command":"parley","args":["serve","--stdio"]}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*waitLimit) // t.Context ends before the shell exits
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, program, setup.args...)
	cmd.Dir = home
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "ZDOTDIR=" + home, "TERM=xterm", "LANG=C.UTF-8", "GORACE=atexit_sleep_ms=0",
		"PARLEY_NO_KEYRING=1", "PARLEY_CONFIG_DIR=" + filepath.Join(home, "config"), "PARLEY_CACHE_DIR=" + filepath.Join(home, "cache")}
	s := &testShell{ctx: ctx, atTerminal: startAtTerminal(t, cmd, false)}
	t.Cleanup(func() {
		s.enter("exit\r")
		if err := s.wait(); err != nil && ctx.Err() != nil {
			t.Errorf("the shell does not exit: %v, the terminal shows %.4000q", err, s.shown)
		}
	})
	s.shown.find(ctx, t, `READY> `)
	return s
}

// run types keys, and waits until the terminal shows the pattern and another prompt.
func (s *testShell) run(t *testing.T, keys, pattern string) {
	t.Helper()
	s.enter(keys)
	_, s.seen = s.shown.after(s.ctx, t, s.seen, `(?s:`+pattern+`.*READY> )`)
}
