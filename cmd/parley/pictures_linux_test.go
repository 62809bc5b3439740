//go:build browser

package main

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/chromedp/chromedp"

	"github.com/parley-mcp/parley/internal/must"
)

var pictures = flag.String("pictures", "", "directory for the pictures of the README; make pictures sets it")

// savePicture writes a picture of the README if -pictures is set. Pictures must be small, because the repository keeps
// all of their versions.
func savePicture(t *testing.T, name string, data []byte) {
	t.Helper()
	must.CheckThat(t, len(data) <= 150<<10, "%s has %d bytes; want at most 150 KiB", name, len(data))
	if *pictures == "" {
		return
	}
	must.Do(t, os.WriteFile(filepath.Join(*pictures, name), data, 0o644))
}

// serveDemo serves the demo tools for a picture, and returns the URL.
func serveDemo(t *testing.T) string {
	t.Helper()
	return startParley(t, `http://127.0.0.1:\d+/mcp`, "serve", "--addr", "127.0.0.1:0")
}

func TestBrowserPictureOfTheInspector(t *testing.T) {
	p := inspectPage(t, serveDemo(t))
	p.check(p.do(chromedp.EmulateViewport(1200, 720)))
	p.press("book_table")
	p.fill("restaurant", "Maaemo")
	p.press("Call Ctrl ↵")
	p.see(`When do you want to eat at Maaemo`)
	p.fill("people", "2")
	p.fill("date", "2027-01-31")
	ctx, cancel := context.WithTimeout(p.ctx, waitLimit)
	defer cancel()
	picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	p.check(err)
	savePicture(t, "inspector.png", picture)
}

// The picture shows commands as a user enters them, and what the program writes to a terminal.
func TestBrowserPictureOfTheTerminal(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	url := serveDemo(t)
	env := terminalEnv(t.TempDir())
	var screen strings.Builder
	for _, command := range []struct {
		line string
		keys []string // what the terminal shows, and the keys that the user then enters, in turn
	}{
		{line: "parley call " + url + " greet name=Ada"},
		{line: "parley call " + url + " weather city=Oslo"},
		{line: "parley call " + url + " book_table restaurant=Maaemo",
			keys: []string{"day of the booking", "2027-01-31", "2027-01-31"}},
	} {
		args := strings.Fields(command.line)
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Env = env
		p := startAtTerminal(t, cmd, false)
		size := [4]uint16{45, 80} // the whole form
		_, _, code := syscall.Syscall(syscall.SYS_IOCTL, p.user.Fd(), syscall.TIOCSWINSZ,
			uintptr(unsafe.Pointer(&size)))
		must.Equal(t, code, 0)
		screen.WriteString("$ " + command.line + "\r\n")
		end := 0
		for i := 0; i+1 < len(command.keys); i += 2 {
			_, end = p.shown.after(ctx, t, end, command.keys[i])
			p.enter(command.keys[i+1])
		}
		if len(command.keys)%2 == 1 { // the form at the end of the picture
			for last := command.keys[len(command.keys)-1]; !strings.Contains(screenOf(p.shown.String()), last); {
				select {
				case <-p.shown.written:
				case <-ctx.Done():
					t.Fatalf("the terminal does not show %s:\n%s", last, screenOf(p.shown.String()))
				}
			}
			screen.WriteString(p.shown.String())
			p.enter("\x03")
			_ = p.wait()
			continue
		}
		if err := p.wait(); err != nil {
			t.Fatal(err, p.shown)
		}
		screen.WriteString(p.shown.String())
	}
	text := regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(screen.String(), "127.0.0.1:7777")
	savePicture(t, "terminal.svg", pictureOf(text))
	t.Log(screenOf(text))
}
