package oauth

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// OpenBrowser shows an https URL, or an http URL of this machine, in the user's
// browser. No shell sees the URL, and it cannot be taken for an option. It returns
// when the browser has been told; an error means that the user saw nothing. Ctx bounds
// that only.
func OpenBrowser(ctx context.Context, url string) error {
	name, args, err := browserCommand(runtime.GOOS, url)
	if err != nil {
		return err
	}
	return launch(ctx, exec.Command(name, args...))
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
// that nothing of it is anything but URL.
func browserCommand(system, raw string) (name string, args []string, err error) {
	u, err := checkURL(raw)
	if err != nil {
		return "", nil, err
	}
	if u.Scheme == "http" && !isLoopbackHost(u.Hostname()) {
		return "", nil, fmt.Errorf("%w: %s is not https", ErrInsecureURL, shown(u))
	}
	url := u.String()
	if !strings.HasPrefix(url, u.Scheme+"://") || strings.ContainsFunc(url, func(r rune) bool { return r <= ' ' || r == '"' || r == 0x7F }) {
		return "", nil, fmt.Errorf("%w: it holds characters that no URL has", ErrInsecureURL)
	}
	switch system {
	case "darwin":
		return "open", []string{url}, nil
	case "windows":
		return "rundll32", []string{"url.dll,FileProtocolHandler", url}, nil
	case "linux", "freebsd", "openbsd", "netbsd", "dragonfly":
		return "xdg-open", []string{url}, nil
	}
	return "", nil, errors.New("opening a browser: not known how on " + system)
}
