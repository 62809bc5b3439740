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

// O11: the command gets one argument.
func TestO11OpenBrowserRunsTheCommandOfTheSystem(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" { // their commands have absolute paths
		return
	}
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if err := oauth.OpenBrowser(t.Context(), "https://as.example/"); err == nil {
		t.Error("OpenBrowser succeeded without a command")
	}
	out := filepath.Join(dir, "out")
	script := "#!/bin/sh\necho \"$#\" \"$1\" > " + out + ".new && /bin/mv " + out + ".new " + out + "\n"
	if err := os.WriteFile(filepath.Join(dir, "xdg-open"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	cause := errors.New("cancelled")
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if err := oauth.OpenBrowser(cancelled, "https://as.example/"); !errors.Is(err, cause) {
		t.Errorf("cancelled context: %v", err)
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
		t.Errorf("the command got %q, %v", got, err)
	}
}
