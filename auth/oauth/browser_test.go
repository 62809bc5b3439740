package oauth_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth/oauth"
)

// Rule O11: the command gets one argument.
func TestOpenBrowserRunsTheCommandOfTheSystem(t *testing.T) {
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
	read := func() string {
		t.Helper()
		deadline := time.Now().Add(time.Minute)
		got, err := os.ReadFile(out)
		for err != nil && time.Now().Before(deadline) {
			runtime.Gosched()
			got, err = os.ReadFile(out)
		}
		if err != nil || os.Remove(out) != nil {
			t.Fatal("the command was not run", err)
		}
		return string(got)
	}
	if got := read(); got != "1 https://as.example/a?b&c=%24(id)\n" {
		t.Errorf("the command got %q", got)
	}

	// Other users can read the command line, so a secret address of this machine is in a file that only this user can
	// read.
	t.Setenv("TMPDIR", filepath.Join(dir, "a b"))
	if err := os.Mkdir(filepath.Join(dir, "a b"), 0o777); err != nil {
		t.Fatal(err)
	}
	opening, end := context.WithCancel(t.Context())
	if err := oauth.OpenBrowser(opening, "http://127.0.0.1:7777/login/s3cret?a=b&c=d"); err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(read())
	if len(words) != 2 || words[0] != "1" || !strings.HasPrefix(words[1], "file:///") || strings.Contains(words[1], "s3cret") {
		t.Fatalf("the command got %q", words)
	}
	file, err := url.Parse(words[1])
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(file.Path)
	if err != nil || !strings.Contains(string(page), `content="0; url=http://127.0.0.1:7777/login/s3cret?a=b&amp;c=d"`) {
		t.Errorf("the page is %s, %v", page, err)
	}
	for path, want := range map[string]os.FileMode{file.Path: 0o600, filepath.Dir(file.Path): 0o700 | os.ModeDir} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: mode %v, want %v, %v", path, info.Mode(), want, err)
		}
	}
	end()
	for deadline := time.Now().Add(time.Minute); !errors.Is(err, os.ErrNotExist) && time.Now().Before(deadline); _, err = os.Stat(filepath.Dir(file.Path)) {
		runtime.Gosched()
	}
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is not removed: %v", err)
	}
}
