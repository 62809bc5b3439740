package endpoint

import (
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"strings"
	"sync"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/cmd/parley/demo"
	"github.com/parley-mcp/parley/cmd/parley/internal/failure"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/host"
)

// Status prints the endpoint and the state of the servers for the user. Its methods are safe for concurrent use.
type Status struct {
	mu     sync.Mutex
	w      io.Writer
	width  int          // of the longest server name
	logger *slog.Logger // if w is for log records, and otherwise nil

	bold, dim, green, red lipgloss.Style
}

func NewStatus(w io.Writer) *Status {
	return &Status{
		// The writer removes colours unless w is a terminal, or if NO_COLOR is set.
		w:      colorprofile.NewWriter(w, os.Environ()),
		logger: program.LoggerOf(w),
		bold:   lipgloss.NewStyle().Bold(true),
		dim:    lipgloss.NewStyle().Faint(true),
		green:  lipgloss.NewStyle().Foreground(lipgloss.Green),
		red:    lipgloss.NewStyle().Foreground(lipgloss.Red),
	}
}

// Title prints the URL of the endpoint for clients, and the one on this machine if it is another one.
func (p *Status) Title(url, local string) {
	if p.logger != nil {
		p.logger.Info("serving MCP", "url", url, "version", program.Version(), "local", local)
		return
	}
	p.Print("\n  %s %s  %s\n\n", p.bold.Render("parley"), program.Version(), p.bold.Render(url))
	if local != url {
		p.Print("  Listening on %s.\n\n", local)
	}
}

// Authorization prints the issuers of the access tokens.
func (p *Status) Authorization(by *auth.ProtectedResource, dev bool) {
	switch {
	case by == nil:
	case dev:
		p.Print("  Requests require a token of %s, a development issuer that logs in any user.\n\n", by.Issuers[0])
	default:
		p.Print("  Requests require a token of %s.\n\n", terminal.Line(strings.Join(by.Issuers, " or ")))
	}
}

// Demo prints examples for the demo server.
func (p *Status) Demo(url string) {
	p.examples("ls "+url, "call "+url+" greet name=Ada", "call "+url+" count to=20", "call "+url+
		" book_table restaurant=Maaemo")
}

// AuthorizedDemo prints examples for the demo server with authorization.
func (p *Status) AuthorizedDemo(url string) {
	p.examples("login "+url, "call "+url+" whoami", "call "+url+" note text=Hello",
		"login --scope "+demo.ScopeNotes+" "+
			url, "logout "+url)
}

func (p *Status) examples(commands ...string) {
	if p.logger != nil {
		return
	}
	p.Print("  Serving demo tools. Try in another terminal:\n\n")
	for _, command := range commands {
		p.Print("    parley %s\n", command)
	}
	p.Print("\n  %s\n\n", p.dim.Render("Stop with Ctrl-C. Serve your own servers with parley up --config mcp.json."))
}

// Directories prints examples for a server of directories.
func (p *Status) Directories(url string, dirs []string) {
	if p.logger != nil {
		return
	}
	p.Print("  Serving the files of %s. Try in another terminal:\n\n", terminal.Line(strings.Join(dirs, ", ")))
	for _, command := range []string{"ls", "watch"} {
		p.Print("    parley %s %s\n", command, url)
	}
	p.Print("\n")
}

// Reserve widens the column of server names for name.
func (p *Status) Reserve(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.width = max(p.width, len(name))
}

// Watch prints the changes of state until changes ends.
func (p *Status) Watch(changes iter.Seq[host.ServerStatus]) {
	printed := make(map[string]string)
	for s := range changes {
		switch s.State {
		case host.Ready, host.Degraded:
			if text := p.summary(s); text != printed[s.Name] { // the status also changes with each list
				printed[s.Name] = text
				p.line(p.green.Render("✓"), s.Name, text)
			}
		case host.Down, host.NeedsLogin:
			if text := failureOf(s); text != printed[s.Name] { // repeated attempts fail with the same error
				printed[s.Name] = text
				p.Failed(s.Name, text)
			}
		case host.CallersOnly:
			text := "lists nothing without a login, so each caller sees what its own login allows"
			if text != printed[s.Name] {
				printed[s.Name] = text
				p.Note(s.Name, text)
			}
		case host.NotStarted:
			if s.Revision == "" {
				p.Note(s.Name, "not started: starts with the first request that needs it")
				continue
			}
			delete(printed, s.Name)
			p.Note(s.Name, "ended because it was idle: starts with the next request that needs it")
		case host.Removed:
			delete(printed, s.Name)
			p.Note(s.Name, "removed")
		}
	}
}

// summary describes a server that is ready.
func (p *Status) summary(s host.ServerStatus) string {
	info := s.Server.Info
	text := fmt.Sprintf("%-9s %s", terminal.Count(len(s.Tools), "tool"),
		p.dim.Render(terminal.Line(fmt.Sprintf("MCP %s · %s %s", s.Revision, info.Name, info.Version))))
	if s.Sharing == host.PerCaller {
		text += " " + p.dim.Render("· one client per caller")
	}
	if s.Incomplete != nil {
		text += " " + terminal.Line(fmt.Sprintf("(degraded: %s)", s.Incomplete))
	}
	return text
}

func (p *Status) Failed(name, text string) {
	if p.logger != nil {
		p.logger.Warn(text, "server", name)
		return
	}
	p.line(p.red.Render("✗"), name, terminal.Line(text))
}

func (p *Status) Note(name, text string) {
	if p.logger != nil {
		p.logger.Info(text, "server", name)
		return
	}
	p.line(p.dim.Render("–"), name, p.dim.Render(text))
}

// failureOf describes why a server is down, and when parley connects to it again.
func failureOf(s host.ServerStatus) string {
	text := failure.Explain(s.Err)
	if s.Revision != "" { // the server was ready before
		return text + " (restarts at the next tool call)"
	}
	return text + " (retrying)"
}

func (p *Status) line(mark, name, text string) {
	p.mu.Lock()
	width := p.width
	p.mu.Unlock()
	p.Print("  %s %-*s  %s\n", mark, width, name, text)
}

func (p *Status) Print(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.w, format, args...)
}
