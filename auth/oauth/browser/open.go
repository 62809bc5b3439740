package browser

import (
	"context"
	"fmt"
	"html"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/parley-mcp/parley/internal/httpurl"
)

// Open opens an https URL, or an http URL on the loopback interface, in the user's browser. It passes the URL to no
// shell, and the URL cannot be mistaken for an option. It returns when the browser has started. After an error, the
// user has not seen the page.
//
// Other users of the machine can read the command line of the browser. For a URL on the loopback interface, the browser
// therefore opens a file that only the user can read and that redirects to the URL. The file is removed when ctx is
// done.
func Open(ctx context.Context, url string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot open a browser: %w", err)
		}
	}()
	name, args, err := browserCommand(runtime.GOOS, url)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if address := len(args) - 1; err == nil && strings.HasPrefix(args[address], "http://") {
		args[address], err = redirectFile(ctx, args[address])
	}
	if err != nil {
		return err
	}
	return launch(ctx, exec.Command(name, args...)) // without ctx: the browser outlives the flow
}

// redirectFile writes a page that redirects to an address, in a new directory, and returns the URL of the file.
func redirectFile(ctx context.Context, address string) (string, error) {
	dir, err := os.MkdirTemp("", "open-browser-") // only the user can read it
	if err != nil {
		return "", err
	}
	context.AfterFunc(ctx, func() { os.RemoveAll(dir) })
	page := `<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer"><title>Redirect</title>` +
		`<meta http-equiv="refresh" content="0; url=` + html.EscapeString(address) + `">`
	path := filepath.Join(dir, "open.html")
	if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
		return "", err
	}
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") { // a drive of Windows
		path = "/" + path
	}
	return escapeForShell(&url.URL{Scheme: "file", Path: path}), nil
}

// launchTimeout is how long to wait for a command to fail.
const launchTimeout = 2 * time.Second

// launch starts a command that opens a browser and exits, or is the browser itself and
// continues to run. In the second case a goroutine waits for its end, to release the
// process.
func launch(ctx context.Context, cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	timer := time.NewTimer(launchTimeout)
	defer timer.Stop()
	select {
	case err := <-exited:
		if err != nil {
			return fmt.Errorf("%s: %w", cmd.Path, err)
		}
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil
}

// browserCommand returns the command that opens a URL on an operating system. It formats
// the parsed URL again and escapes characters that scripts such as xdg-open could
// interpret.
func browserCommand(system, raw string) (name string, args []string, err error) {
	page, fragment, _ := strings.Cut(raw, "#")
	u, err := httpurl.Parse(page)
	if err == nil && fragment != "" {
		if u, err = url.Parse(raw); err != nil {
			err = fmt.Errorf("%w: cannot parse the fragment", httpurl.ErrInsecure)
		}
	}
	if err != nil {
		return "", nil, err
	}
	if !httpurl.IsSecure(u) {
		return "", nil, fmt.Errorf("%w: %s must be https", httpurl.ErrInsecure, httpurl.WithoutQuery(u))
	}
	if strings.ContainsFunc(u.String(), func(r rune) bool { return r <= ' ' || r == '"' || r == 0x7F }) {
		return "", nil, fmt.Errorf("%w: it contains characters that are invalid in a URL", httpurl.ErrInsecure)
	}
	address := escapeForShell(u)
	if again, err := url.Parse(address); err != nil || again.Host != u.Host { // the host cannot be escaped
		return "", nil, fmt.Errorf("%w: the host contains characters that are invalid in a URL", httpurl.ErrInsecure)
	}
	switch system {
	case "darwin":
		return "/usr/bin/open", []string{address}, nil
	case "windows":
		return "rundll32", []string{"url.dll,FileProtocolHandler", address}, nil
	case "linux", "freebsd", "openbsd", "netbsd", "dragonfly":
		return "xdg-open", []string{address}, nil
	}
	return "", nil, fmt.Errorf("operating system %s is not supported", system)
}

// escapeForShell formats a URL and percent-encodes the characters that a shell interprets
// outside of quotes, except those whose encoding would change the URL.
func escapeForShell(u *url.URL) string {
	var b strings.Builder
	for _, c := range []byte(u.String()) {
		if isAlphanumeric(c) || strings.IndexByte("-._~:/?#[]@!&*+,;=%()", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// ShowURL returns a function for Loopback.Open that writes the URL to w for the user. A
// browser on another machine reaches it through a tunnel to the port of Loopback.RedirectURI.
func ShowURL(w io.Writer) func(context.Context, string) error {
	return func(_ context.Context, url string) error {
		_, err := fmt.Fprintf(w, "To log in, open this address in a browser:\n\n  %s\n\n", url)
		return err
	}
}
