// Package browser opens pages in the user's browser.
package browser

import (
	"context"
	"fmt"
	"net/url"
	"os/exec"
	"runtime"
	"strings"

	"github.com/parley-mcp/parley/mcp"
)

// Open has the system open a page in the user's browser, and does not wait for it. The
// page is one that mcp.ParseElicitURL lets through. No shell sees the address, which
// begins with http and so is no option of any program.
func Open(ctx context.Context, address string) error {
	name, args, err := command(runtime.GOOS, address)
	if err != nil {
		return err
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return fmt.Errorf("there is no %s to open pages with: %w", name, err)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	cmd := exec.Command(path, args...) // which lives longer than we wait, so without ctx
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}

// command is the program that opens pages, and its arguments.
func command(system, address string) (name string, args []string, err error) {
	u, err := mcp.ParseElicitURL(address)
	if err != nil {
		return "", nil, err
	}
	address = plain(u)
	switch system {
	case "darwin":
		return "/usr/bin/open", []string{address}, nil
	case "windows":
		return "rundll32", []string{"url.dll,FileProtocolHandler", address}, nil
	}
	return "xdg-open", []string{address}, nil
}

// plain writes a URL with nothing in it that a program could take for more than a part
// of a URL: xdg-open is itself a script, and hands the address on.
func plain(u *url.URL) string {
	var b strings.Builder
	for _, c := range []byte(u.String()) {
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~:/?#[]@!&*+,;=%()", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, "%%%02X", c) // quotes, $, backquotes, | and the like
	}
	return b.String()
}
