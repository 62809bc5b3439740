package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zalando/go-keyring"
)

// choose runs the program at a terminal, and answers its question with Yes or No. It returns what the terminal has
// shown before.
func choose(t *testing.T, question, choice string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	user, program := openTerminal(t)
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(program)
	root.SetErr(program)
	root.SetOut(io.Discard)
	shown := &terminalText{written: make(chan struct{}, 1)}
	go func() { _, _ = io.Copy(shown, user) }() // until the test closes the terminal
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	_, end := shown.after(ctx, t, 0, question)
	before := shown.String()[:end]
	if _, end = shown.after(ctx, t, end, `> \x1b\[[0-9;]+mNo`); choice == "Yes" {
		_, _ = user.WriteString("k")
		shown.after(ctx, t, end, `> \x1b\[[0-9;]+mYes`)
	}
	_, _ = user.WriteString("\r")
	select {
	case err := <-ended:
		if err != nil && choice == "Yes" {
			t.Errorf("%v; the terminal shows %.4000q", err, shown)
		}
	case <-ctx.Done():
		t.Fatalf("the command does not end; the terminal shows %.4000q", shown)
	}
	return before
}

func TestAddOffersToStoreSecretsInTheKeyring(t *testing.T) {
	keyring.MockInit() // do not use the user's keyring
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere")
	t.Setenv("PARLEY_NO_KEYRING", "")
	path := filepath.Join(t.TempDir(), "mcp.json")
	line := []string{"add", "--config", path, "notes", "https://ada:first@example.com/mcp?token=second", "-H", "X-Auth: Bearer third"}
	choose(t, "Store in the system's keyring", "No", line...)
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("after No: %v", err)
	}
	before := choose(t, "Store in the system's keyring", "Yes", line...)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for account, secret := range map[string]string{"notes.X-Auth": "third", "notes.password.2": "first", "notes.token.3": "second"} {
		if got, err := keyring.Get("parley", account); err != nil || got != secret || bytes.Contains(text, []byte(secret)) || strings.Contains(before, secret) {
			t.Errorf("%s: %q, %v in\n%s", account, got, err, text)
		}
	}
	for _, want := range []string{
		`"https://ada:${keyring:parley/notes.password.2}@example.com/mcp?token=${keyring:parley/notes.token.3}"`, `"Bearer ${keyring:parley/notes.X-Auth}"`,
	} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

func TestLockAcceptShowsTheDifferencesAndAsks(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PARLEY_CONFIG_DIR", dir)
	t.Setenv("PARLEY_NO_KEYRING", "1")
	path, locked := filepath.Join(dir, "mcp.json"), filepath.Join(dir, "mcp.lock")
	const none = `{"format": 1, "servers": {}}`
	for file, text := range map[string]string{path: `{"mcpServers": {"one": {"command": "parley", "args": ["serve", "--stdio"]}}}`, locked: none} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for choice, accepted := range map[string]bool{"No": false, "Yes": true} {
		before := choose(t, `Accept these differences\?`, choice, "lock", "accept", "--config", path, "one", "greet")
		if !strings.Contains(before, `one: + tool "greet" is new`) || strings.Contains(before, "weather") {
			t.Errorf("before the question: %s", before)
		}
		text, err := os.ReadFile(locked)
		if err != nil || (string(text) != none) != accepted || bytes.Contains(text, []byte(`"greet"`)) != accepted || bytes.Contains(text, []byte("weather")) {
			t.Errorf("after %s: %v\n%s", choice, err, text)
		}
		if err := os.WriteFile(locked, []byte(none), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
