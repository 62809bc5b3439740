package main

import (
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"sync"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/cmd/parley/demo"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/host"
)

// board tells a person what is served, a line for each thing that happens.
type board struct {
	mu    sync.Mutex
	w     io.Writer
	names int // the width of the longest

	bold, dim, good, bad lipgloss.Style
}

func newBoard(w io.Writer) *board {
	return &board{
		// Colours go where the terminal shows them, and NO_COLOR is heeded.
		w:    colorprofile.NewWriter(w, os.Environ()),
		bold: lipgloss.NewStyle().Bold(true),
		dim:  lipgloss.NewStyle().Faint(true),
		good: lipgloss.NewStyle().Foreground(lipgloss.Green),
		bad:  lipgloss.NewStyle().Foreground(lipgloss.Red),
	}
}

func (b *board) title(url string) {
	b.print("\n  %s %s  %s\n\n", b.bold.Render("parley"), version(), b.bold.Render(url))
}

// protected says who may call.
func (b *board) protected(by *auth.ProtectedResource, dev bool) {
	switch {
	case by == nil:
	case dev:
		b.print("  Calls need a token of %s, which lets anybody be anybody: it is for development.\n\n", by.Issuers[0])
	default:
		b.print("  Calls need a token of %s.\n\n", terminal.Line(strings.Join(by.Issuers, " or ")))
	}
}

// demo says what to do with the demo server.
func (b *board) demo(url string) {
	b.tries("ls "+url, "call "+url+" greet name=Ada", "call "+url+" count to=20", "call "+url+" book_table restaurant=Maaemo")
}

// guardedDemo says it of one that wants a login. To leave a note needs another.
func (b *board) guardedDemo(url string) {
	b.tries("login "+url, "call "+url+" whoami", "call "+url+" note text=Hello", "login --scope "+demo.ScopeNotes+" "+url, "logout "+url)
}

func (b *board) tries(commands ...string) {
	b.print("  A few demo tools are served. Try, in another terminal:\n\n")
	for _, command := range commands {
		b.print("    parley %s\n", command)
	}
	b.print("\n  %s\n\n", b.dim.Render("Ctrl-C ends it. parley up --config mcp.json serves your own servers."))
}

// directories says what to do with the files that are served.
func (b *board) directories(url string, dirs []string) {
	b.print("  The files of %s are served. Try, in another terminal:\n\n", terminal.Line(strings.Join(dirs, ", ")))
	for _, command := range []string{"ls", "watch"} {
		b.print("    parley %s %s\n", command, url)
	}
	b.print("\n")
}

// expect makes room for a server's name.
func (b *board) expect(name string) { b.names = max(b.names, len(name)) }

// watch shows what becomes of servers until there is no more to come.
func (b *board) watch(changes iter.Seq[host.Status]) {
	said := make(map[string]string)
	for s := range changes {
		switch s.State {
		case host.Ready:
			if has := b.has(s); has != said[s.Name] { // that a list has changed need not be
				said[s.Name] = has
				b.line(b.good.Render("✓"), s.Name, has)
			}
		case host.Down:
			if why := reason(s); why != said[s.Name] { // each attempt that fails alike is no news
				said[s.Name] = why
				b.failed(s.Name, why)
			}
		}
	}
}

// has says what there is of a server that is ready.
func (b *board) has(s host.Status) string {
	info := s.Server.Info
	return fmt.Sprintf("%-9s %s", count(len(s.Tools), "tool"),
		b.dim.Render(terminal.Line(fmt.Sprintf("MCP %s · %s %s", s.Revision, info.Name, info.Version))))
}

func (b *board) failed(name, why string) {
	b.line(b.bad.Render("✗"), name, terminal.Line(why))
}

func (b *board) note(name, text string) { b.line(b.dim.Render("–"), name, b.dim.Render(text)) }

// reason says why a server is down, and what becomes of it.
func reason(s host.Status) string {
	text := plainly(s.Err)
	switch {
	case s.Revision != "": // it has been ready before
		text += "; it starts again when one of its tools is called"
	case s.GivenUp:
		text += "; given up"
	default:
		text += "; trying again"
	}
	return text
}

func (b *board) line(mark, name, text string) {
	b.print("  %s %s  %s\n", mark, name+strings.Repeat(" ", max(b.names-len(name), 0)), text)
}

func (b *board) print(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fmt.Fprintf(b.w, format, args...)
}
