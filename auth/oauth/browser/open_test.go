package browser_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth/oauth/browser"
	"github.com/parley-mcp/parley/internal/corpus"
	"github.com/parley-mcp/parley/internal/httpurl"
	"github.com/parley-mcp/parley/internal/must"
)

// Rule O11: the command gets a single argument.
func TestOpenRunsTheCommandOfTheSystem(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" { // their commands are named by absolute paths
		return
	}
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if err := browser.Open(t.Context(), "https://as.example/"); err == nil {
		t.Error("Open succeeded without a command")
	}
	for _, url := range []string{"file:///x", "https://as.example/"} { // an invalid URL, and no command
		err := browser.Open(t.Context(), url)
		must.CheckEqual(t, strings.Count(fmt.Sprint(err), "cannot open a browser: "), 1, err)
	}
	must.CheckIs(t, browser.Open(t.Context(), "file:///x"), httpurl.ErrInsecure)
	out := filepath.Join(dir, "out")
	script := "#!/bin/sh\necho \"$#\" \"$1\" > " + out + ".new && /bin/mv " + out + ".new " + out + "\n"
	must.Do(t, os.WriteFile(filepath.Join(dir, "xdg-open"), []byte(script), 0o700))
	cause := errors.New("cancelled")
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	must.CheckIs(t, browser.Open(cancelled, "https://as.example/"), cause)
	must.Do(t, browser.Open(t.Context(), "https://as.example/a?b&c=$(id)"))
	read := func() string {
		t.Helper()
		deadline := time.Now().Add(time.Minute)
		got, err := os.ReadFile(out)
		for err != nil && time.Now().Before(deadline) {
			runtime.Gosched()
			got, err = os.ReadFile(out)
		}
		must.That(t, err == nil && os.Remove(out) == nil, "the command was not run %v", err)
		return string(got)
	}
	must.CheckEqual(t, read(), "1 https://as.example/a?b&c=%24(id)\n")

	// Other users can read the command line, so a secret address of this machine is in a file that only this user can
	// read.
	t.Setenv("TMPDIR", filepath.Join(dir, "a b"))
	must.Do(t, os.Mkdir(filepath.Join(dir, "a b"), 0o777))
	opening, end := context.WithCancel(t.Context())
	must.Do(t, browser.Open(opening, "http://127.0.0.1:7777/login/s3cret?a=b&c=d"))
	words := strings.Fields(read())
	must.That(t, len(words) == 2 && words[0] == "1" && strings.HasPrefix(words[1], "file:///") &&
		!strings.Contains(words[1], "s3cret"), "the command got %q", words)
	file := must.Get(url.Parse(words[1]))(t)
	page, err := os.ReadFile(file.Path)
	must.CheckThat(t, err == nil && strings.Contains(string(page),
		`content="0; url=http://127.0.0.1:7777/login/s3cret?a=b&amp;c=d"`), "the page is %s, %v", page, err)
	for path, want := range map[string]os.FileMode{file.Path: 0o600, filepath.Dir(file.Path): 0o700 | os.ModeDir} {
		must.CheckEqual(t, must.Get(os.Stat(path))(t).Mode(), want, path)
	}
	end()
	for deadline := time.Now().Add(time.Minute); !errors.Is(err, os.ErrNotExist) &&
		time.Now().Before(deadline); _, err = os.Stat(filepath.Dir(file.Path)) {
		runtime.Gosched()
	}
	must.CheckIs(t, err, os.ErrNotExist)
}

// Rule O11.
func TestURLsOfTheCorpusAreJudgedAsRecorded(t *testing.T) {
	for _, c := range corpus.Cases(t, "rules/urls") {
		for _, system := range []string{"linux", "darwin", "windows"} {
			_, args, err := browser.Command(system, c.Text(t))
			got := "opened"
			if err != nil {
				got = "rejected"
			}
			must.CheckEqual(t, got, c.Want(), c.Place, c.Name, system, args, err)
		}
	}
}

// FuzzOpenURL checks that a browser is started with one argument, the URL: it is https or on the loopback
// interface, is not an option, and contains no character that a shell interprets.
func FuzzOpenURL(f *testing.F) {
	for _, seed := range []string{
		"https://as.example/authorize?a=b&c=$(x)%20;|y", "http://127.0.0.1:1/x", "https://as.example/`id`/'x'?\\#f",
		"-flag", "--x=https://a.example", "javascript:alert(1)",
		"https://u@as.example/", "http://as.example/", "https://as.example/#%zz", "https://[::1%25x]/",
		"HTTPS://AS.example", "https://as.example/%2F?%26#%23", "https://as.example:0x1/",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		for _, system := range []string{"linux", "darwin", "windows"} {
			name, args, err := browser.Command(system, raw)
			if err != nil {
				continue
			}
			address := args[len(args)-1]
			if slices.Contains([]string{"sh", "bash", "cmd", "powershell"}, name) ||
				strings.ContainsFunc(address, func(r rune) bool {
					return r <= ' ' || r >= 0x7F || strings.ContainsRune("$`\"'|<>\\^{}", r)
				}) {
				t.Fatalf("%q on %s runs %s %q", raw, system, name, args)
			}
			opened, err := url.Parse(address)
			must.Do(t, err, raw, system, address)
			host, loopback := opened.Hostname(), false
			if ip, err := netip.ParseAddr(host); err == nil {
				loopback = ip.Unmap().IsLoopback()
			}
			secure := opened.Scheme == "https" || opened.Scheme == "http" &&
				(loopback || strings.EqualFold(host, "localhost"))
			must.That(t, secure && host != "" && opened.User == nil, "%q on %s opens %q", raw, system, address)
			given, err := url.Parse(raw)
			must.That(t, err == nil && strings.EqualFold(given.Host, opened.Host) && given.Path == opened.Path &&
				given.Query().Encode() == opened.Query().Encode() && given.Fragment == opened.Fragment,
				"%q on %s opens another page: %q", raw, system, address)
		}
	})
}
