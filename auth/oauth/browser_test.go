package oauth_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth/oauth"
)

// O11: the program that the system has is handed one argument.
func TestO11OpenBrowserRunsWhatTheSystemHas(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" { // whose programs are where they are
		return
	}
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if err := oauth.OpenBrowser(t.Context(), "https://as.example/"); err == nil {
		t.Error("nothing was there to open it with")
	}
	out := filepath.Join(dir, "out")
	script := "#!/bin/sh\necho \"$#\" \"$1\" > " + out + ".new && /bin/mv " + out + ".new " + out + "\n"
	if err := os.WriteFile(filepath.Join(dir, "xdg-open"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	gone := errors.New("gone")
	ended, end := context.WithCancelCause(t.Context())
	end(gone)
	if err := oauth.OpenBrowser(ended, "https://as.example/"); !errors.Is(err, gone) {
		t.Errorf("for a login that is over: %v", err)
	}
	if err := oauth.OpenBrowser(t.Context(), "https://as.example/a?b&c=$(id)"); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	got, err := os.ReadFile(out)
	for err != nil && time.Now().Before(deadline) {
		runtime.Gosched()
		got, err = os.ReadFile(out)
	}
	if string(got) != "1 https://as.example/a?b&c=%24(id)\n" {
		t.Errorf("it was handed %q, %v", got, err)
	}
}
