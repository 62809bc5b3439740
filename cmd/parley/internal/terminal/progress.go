package terminal

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/ansi"
)

const (
	barWidth = 24

	// lineEvery is how often progress is written where lines stay.
	lineEvery = time.Second

	// maxHeld is how many lines are kept while something else has the terminal.
	maxHeld = 100
)

// Progress shows how far something is: on a terminal as a bar that stays on one
// line, elsewhere as a line now and then. It is safe for concurrent use.
type Progress struct {
	label string
	width int // of the terminal; 0: none

	mu    sync.Mutex
	w     io.Writer
	last  time.Time
	drawn bool

	holding bool
	held    []string // at most maxHeld
	missed  int      // lines beyond them
}

// NewProgress returns a Progress that writes to w. Nothing is written before the
// first report.
func NewProgress(w io.Writer, label string) *Progress {
	return &Progress{w: w, label: Line(label), width: Width(w)}
}

// Set shows that done of total is done; a total of 0 is unknown.
func (p *Progress) Set(done, total float64, message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holding {
		return
	}
	message = Line(message)
	if p.width > 0 {
		p.drawn = true
		fmt.Fprint(p.w, "\r\x1b[K"+ansi.Truncate(bar(done, total)+" "+message, p.width-1, "…"))
		return
	}
	if finished := total > 0 && done >= total; !finished && time.Since(p.last) < lineEvery {
		return
	}
	p.last = time.Now()
	fmt.Fprintln(p.w, strings.TrimRight(fmt.Sprintf("%s: %s %s", p.label, share(done, total), message), " "))
}

// Println writes a line that stays, above the bar.
func (p *Progress) Println(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.holding:
		p.clear()
		fmt.Fprintln(p.w, line)
	case len(p.held) < maxHeld:
		p.held = append(p.held, line)
	default:
		p.missed++
	}
}

// Hold leaves the terminal to something else until Release: reports are dropped
// meanwhile, and lines are kept.
func (p *Progress) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.holding = true
}

// Release ends Hold.
func (p *Progress) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range p.held {
		fmt.Fprintln(p.w, line)
	}
	if p.missed > 0 {
		fmt.Fprintf(p.w, "(%d more lines)\n", p.missed)
	}
	p.holding, p.held, p.missed = false, nil, 0
}

// Done takes the bar away.
func (p *Progress) Done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

// clear is called with mu held.
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
	if total <= 0 {
		return number(done)
	}
	return number(done) + "/" + number(total)
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
