package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/parley-mcp/parley/internal/httpurl"
)

// OpenBrowser shows an https URL, or an http URL of this machine, in the user's
// browser. No shell sees the URL, and it cannot be taken for an option. It returns
// when the browser has been told; an error means that the user saw nothing. Ctx bounds
// that only.
func OpenBrowser(ctx context.Context, url string) error {
	name, args, err := browserCommand(runtime.GOOS, url)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	return launch(ctx, exec.Command(name, args...)) // which lives longer than we wait, so without ctx
}

// settled is when a program that opens browsers would have failed.
const settled = 2 * time.Second

// launch starts a program that hands the URL on and exits, or is a browser itself and
// stays. Then a goroutine remains for as long as it does, so that it leaves no zombie.
func launch(ctx context.Context, cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("opening a browser: %w", err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	timer := time.NewTimer(settled)
	defer timer.Stop()
	select {
	case err := <-exited:
		if err != nil {
			return fmt.Errorf("opening a browser: %s: %w", cmd.Path, err)
		}
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil
}

// browserCommand is how a system opens a URL. The URL is made anew from its parts, so
// that nothing of it is anything but URL, and nothing means more to the scripts that hand
// it on: xdg-open is one.
func browserCommand(system, raw string) (name string, args []string, err error) {
	page, fragment, _ := strings.Cut(raw, "#")
	u, err := checkURL(page)
	if err == nil && fragment != "" {
		if u, err = url.Parse(raw); err != nil {
			err = fmt.Errorf("%w: its fragment cannot be parsed", ErrInsecureURL)
		}
	}
	if err != nil {
		return "", nil, err
	}
	if u.Scheme == "http" && !httpurl.IsLoopback(u.Hostname()) {
		return "", nil, fmt.Errorf("%w: %s is not https", ErrInsecureURL, shown(u))
	}
	if strings.ContainsFunc(u.String(), func(r rune) bool { return r <= ' ' || r == '"' || r == 0x7F }) {
		return "", nil, fmt.Errorf("%w: it holds characters that no URL has", ErrInsecureURL)
	}
	address := inert(u)
	switch system {
	case "darwin":
		return "/usr/bin/open", []string{address}, nil
	case "windows":
		return "rundll32", []string{"url.dll,FileProtocolHandler", address}, nil
	case "linux", "freebsd", "openbsd", "netbsd", "dragonfly":
		return "xdg-open", []string{address}, nil
	}
	return "", nil, errors.New("opening a browser: not known how on " + system)
}

// inert writes a URL with all of its characters encoded that could mean something to a
// shell outside of quotation, as far as that leaves it the same URL.
func inert(u *url.URL) string {
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
