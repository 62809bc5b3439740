// Package terminal writes output for users: it sanitises text from servers, fits tables to
// the width of the terminal, and shows progress on one line.
package terminal

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf16"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/term"

	"github.com/parley-mcp/parley/internal/plaintext"
)

// Line sanitises text from a server for output on one line: runs of white space become one
// space, and control characters become visible characters.
func Line(text string) string {
	return sanitise(strings.Join(strings.Fields(text), " "), false)
}

// maxLine limits a line of a log, in bytes.
const maxLine = 4000

// Bounded is Line for logs, whose lines must not be as long as a server or a client likes.
func Bounded(text string) string { return Cut(Line(text)) }

// Cut returns the beginning of a text that is too long for a line of a log.
func Cut(text string) string {
	if len(text) <= maxLine {
		return text
	}
	return strings.ToValidUTF8(text[:maxLine], "") + fmt.Sprintf(" … (%d more bytes)", len(text)-maxLine)
}

// Shorten returns the beginning of a text that has more than limit bytes, and … after it.
func Shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}

// Verbatim sanitises text for output on one line without changing its spaces, for commands that the user can paste.
func Verbatim(text string) string { return sanitise(text, false) }

// Block sanitises text from a server and keeps its newlines and tabs.
func Block(text string) string { return sanitise(text, true) }

// JSON sanitises JSON text without changing its value: it escapes control characters and invisible characters, which
// valid JSON contains in strings only.
func JSON(text string) string {
	return plaintext.Replace(text, func(r rune) string {
		switch {
		case r < 0x20:
			return string(r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			return fmt.Sprintf("\\u%04x\\u%04x", high, low)
		}
		return fmt.Sprintf("\\u%04x", r)
	})
}

// sanitise replaces C0 control characters, and so the ESC of escape sequences, by their control pictures, and shows
// other control characters and invisible characters by code point.
func sanitise(text string, multiline bool) string {
	return plaintext.Replace(text, func(r rune) string {
		switch {
		case multiline && (r == '\n' || r == '\t'):
			return string(r)
		case r < 0x20:
			return string(0x2400 + r) // the block of control pictures
		case r == 0x7F:
			return "\u2421"
		}
		return plaintext.CodePoint(r)
	})
}

// Count returns a number and a noun, with an s if the number is not 1.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Duration rounds a duration to three or four digits.
func Duration(d time.Duration) time.Duration {
	switch {
	case d > time.Second:
		return d.Round(10 * time.Millisecond)
	case d > time.Millisecond:
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(time.Microsecond)
}

// Is reports whether a reader or writer is a terminal.
func Is(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(f.Fd())
}

// Width returns the number of columns of w, or 0 if w is not a terminal.
func Width(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(f.Fd()) {
		return 0
	}
	width, _, err := term.GetSize(f.Fd())
	if err != nil || width <= 0 {
		return 80
	}
	return width
}

const (
	barWidth = 24

	lineInterval = time.Second // between two lines, if the output is not a terminal
	maxQueued    = 100         // lines queued between Pause and Resume
)

// Progress shows the progress of a request: on a terminal as a bar on one line, elsewhere
// as at most one line per second. It is safe for concurrent use.
type Progress struct {
	label string
	width int // of the terminal; 0 if w is not a terminal

	mu    sync.Mutex
	w     io.Writer
	last  time.Time
	drawn bool

	paused  bool
	queued  []string // at most maxQueued lines
	dropped int      // the number of further lines
}

// waitDelay is how long Await waits before it shows anything.
const waitDelay = time.Second

// NewProgress returns a Progress that writes to w. It writes nothing before the first report.
func NewProgress(w io.Writer, label string) *Progress {
	return &Progress{w: w, label: Line(label), width: Width(w)}
}

// Await shows on a terminal what a command waits for, after a second and until stop is called. Detail adds a text, such
// as what the other side has written last.
func (p *Progress) Await(what string) (detail func(string), stop func()) {
	if p.width == 0 {
		return func(string) {}, func() {}
	}
	var mu sync.Mutex
	text, late, stopped := what, false, false
	show := func() {
		if late && !stopped {
			p.Set(0, 0, text)
		}
	}
	timer := time.AfterFunc(waitDelay, func() {
		mu.Lock()
		defer mu.Unlock()
		late = true
		show()
	})
	detail = func(more string) {
		mu.Lock()
		defer mu.Unlock()
		text = what + ": " + more
		show()
	}
	return detail, func() {
		timer.Stop()
		mu.Lock()
		defer mu.Unlock()
		if stopped = true; late {
			p.Done()
		}
	}
}

// Write implements io.Writer: it writes lines above the bar.
func (p *Progress) Write(lines []byte) (int, error) {
	p.Println(strings.TrimSuffix(string(lines), "\n"))
	return len(lines), nil
}

// Set reports that done of total is finished. A total of 0 means that it is unknown; without any number, the message is
// shown alone, as for tasks, whose reports have no numbers.
func (p *Progress) Set(done, total float64, message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused {
		return
	}
	message = Line(message)
	if p.width > 0 {
		p.drawn = true
		fmt.Fprint(p.w, "\r\x1b[K"+ansi.Truncate(strings.TrimSpace(bar(done, total)+" "+message), p.width-1, "…"))
		return
	}
	if finished := total > 0 && done >= total; !finished && time.Since(p.last) < lineInterval {
		return
	}
	p.last = time.Now()
	if text := strings.TrimSpace(share(done, total) + " " + message); text != "" {
		fmt.Fprintln(p.w, p.label+": "+text)
	}
}

// Println writes a permanent line above the bar.
func (p *Progress) Println(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.paused:
		p.clear()
		fmt.Fprintln(p.w, line)
	case len(p.queued) < maxQueued:
		p.queued = append(p.queued, line)
	default:
		p.dropped++
	}
}

// Pause stops output until Resume, so that a form can use the terminal. Lines are queued in
// the meantime, and progress is dropped.
func (p *Progress) Pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.paused = true
}

// Resume writes the queued lines and ends Pause.
func (p *Progress) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range p.queued {
		fmt.Fprintln(p.w, line)
	}
	if p.dropped > 0 {
		fmt.Fprintf(p.w, "(%d more lines)\n", p.dropped)
	}
	p.paused, p.queued, p.dropped = false, nil, 0
}

// Done removes the bar.
func (p *Progress) Done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

// clear removes the bar. The caller has locked p.mu.
func (p *Progress) clear() {
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.drawn = false
	}
}

func bar(done, total float64) string {
	if total <= 0 {
		return share(done, total)
	}
	full := int(min(max(done/total, 0), 1) * barWidth)
	return strings.Repeat("█", full) + strings.Repeat("░", barWidth-full) + " " + share(done, total)
}

func share(done, total float64) string {
	switch {
	case total <= 0 && done == 0:
		return ""
	case total <= 0:
		return number(done)
	}
	return number(done) + "/" + number(total)
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
