package browser

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// O11: what opens a page is a program that is handed the address as one argument, which
// is no option and means nothing to a shell.
func TestO11AddressesAreOneArgument(t *testing.T) {
	for _, system := range []string{"linux", "freebsd", "darwin", "windows"} {
		for _, address := range []string{
			"https://example.com/?a=1&b=2#c", "https://example.com/$(id)", "https://example.com/`id`", `https://example.com/"x'|id`,
			"https://example.com/;id", "http://127.0.0.1:8080/-e", "https://[::1]/%20--x",
		} {
			name, args, err := command(system, address)
			if err != nil {
				t.Errorf("%s: %v", address, err)
				continue
			}
			last := args[len(args)-1]
			if !strings.HasPrefix(last, "http") || strings.ContainsAny(last, "$`\"'|<>\\ \n") {
				t.Errorf("%s runs %s %q", system, name, args)
			}
			if slices.ContainsFunc([]string{"sh", "bash", "cmd", "cmd.exe", "powershell"}, func(shell string) bool { return filepath.Base(name) == shell }) {
				t.Errorf("%s runs the shell %s", system, name)
			}
		}
		for _, address := range []string{"-a Calculator", "--help", "file:///etc/passwd", "javascript:alert(1)", "http://example.com/", "https://example.com/\nid", ""} {
			if name, args, err := command(system, address); err == nil {
				t.Errorf("%s runs %s %q", system, name, args)
			}
		}
	}
	if _, args, _ := command("linux", "https://example.com/?a=1&b=%C3%A9#c"); args[0] != "https://example.com/?a=1&b=%C3%A9#c" {
		t.Errorf("an address was changed: %q", args)
	}
}

func TestOpenRunsWhatTheSystemHas(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" { // whose programs are where they are
		return
	}
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if err := Open(t.Context(), "https://example.com/"); err == nil {
		t.Error("nothing was there to open it with")
	}
	out := filepath.Join(dir, "out")
	if err := os.WriteFile(filepath.Join(dir, "xdg-open"), []byte("#!/bin/sh\necho \"$#\" \"$1\" > "+out+".new && /bin/mv "+out+".new "+out+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := Open(ended, "https://example.com/"); err == nil {
		t.Error("it was opened for a request that is over")
	}
	if err := Open(t.Context(), "https://example.com/a?b&c"); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		raw, err := os.ReadFile(out)
		if err == nil {
			if got := string(raw); got != "1 https://example.com/a?b&c\n" {
				t.Errorf("it was handed %q", got)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
}
