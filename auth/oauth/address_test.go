package oauth_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/internal/must"
)

// Rule O12: the address that a name resolves to is checked when it is dialed. Networks can be allowed.
func TestResolvedAddressesAreChecked(t *testing.T) {
	for _, networks := range [][]netip.Prefix{nil, {netip.MustParsePrefix("127.0.0.0/8"),
		netip.MustParsePrefix("::1/128")}} {
		w := newEnvironment(t)
		c := w.Client()
		c.Networks = networks
		// The MCP server has a public address and is not contacted.
		req, _ := http.NewRequest(http.MethodPost, "https://mcp.example/mcp", nil)
		u, _ := url.Parse(w.AS.URL)
		resp := &http.Response{StatusCode: http.StatusUnauthorized, Header: http.Header{
			"Www-Authenticate": {`Bearer resource_metadata="https://localhost:` + u.Port() + `/x"`},
		}}
		_, err := c.Reauthorize(req, "https://mcp.example/mcp", resp)
		if err == nil || errors.Is(err, oauth.ErrForbiddenAddress) != (networks == nil) {
			t.Errorf("with networks %v: %v", networks, err)
		}
		must.CheckEqual(t, len(w.Dialed) > 0, networks != nil, networks, "the client dialed", w.Dialed)
		w.Dialed = nil
	}
}

func FuzzSSRFAddr(f *testing.F) {
	for _, seed := range []string{"127.0.0.1", "::ffff:10.1.2.3", "64:ff9b::7f00:1", "2002:a00::", "fe80::1%x",
		"8.8.8.8"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := netip.ParseAddr(text)
		if err != nil || !oauth.IsPublic(a) {
			return
		}
		plain := a.Unmap().WithZone("")
		if !plain.IsGlobalUnicast() || plain.IsPrivate() || plain.IsLoopback() || plain.IsLinkLocalUnicast() {
			t.Fatalf("%s is public", text)
		}
		// The result for an IPv4 address is the same in all notations.
		if plain.Is4() {
			b := plain.As4()
			for _, wrapped := range []netip.Addr{netip.AddrFrom16(plain.As16()), nat64(b)} {
				must.That(t, oauth.IsPublic(wrapped), "%s is public, and %s is not", plain, wrapped)
			}
		}
	})
}

func nat64(b [4]byte) netip.Addr {
	var a [16]byte
	copy(a[:], []byte{0, 0x64, 0xff, 0x9b})
	copy(a[12:], b[:])
	return netip.AddrFrom16(a)
}

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
	for _, url := range []string{"file:///x", "https://as.example/"} { // an invalid URL, and no command
		err := oauth.OpenBrowser(t.Context(), url)
		must.CheckEqual(t, strings.Count(fmt.Sprint(err), "cannot open a browser: "), 1, err)
	}
	must.CheckIs(t, oauth.OpenBrowser(t.Context(), "file:///x"), oauth.ErrInsecureURL)
	out := filepath.Join(dir, "out")
	script := "#!/bin/sh\necho \"$#\" \"$1\" > " + out + ".new && /bin/mv " + out + ".new " + out + "\n"
	must.Do(t, os.WriteFile(filepath.Join(dir, "xdg-open"), []byte(script), 0o700))
	cause := errors.New("cancelled")
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	must.CheckIs(t, oauth.OpenBrowser(cancelled, "https://as.example/"), cause)
	must.Do(t, oauth.OpenBrowser(t.Context(), "https://as.example/a?b&c=$(id)"))
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
	must.Do(t, oauth.OpenBrowser(opening, "http://127.0.0.1:7777/login/s3cret?a=b&c=d"))
	words := strings.Fields(read())
	if len(words) != 2 || words[0] != "1" || !strings.HasPrefix(words[1], "file:///") ||
		strings.Contains(words[1], "s3cret") {
		t.Fatalf("the command got %q", words)
	}
	file := must.Get(url.Parse(words[1]))(t)
	page, err := os.ReadFile(file.Path)
	if err != nil || !strings.Contains(string(page),
		`content="0; url=http://127.0.0.1:7777/login/s3cret?a=b&amp;c=d"`) {
		t.Errorf("the page is %s, %v", page, err)
	}
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
