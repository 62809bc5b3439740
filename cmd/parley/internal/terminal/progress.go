package terminal

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
)

const (
	barWidth = 24

	// lineEvery is how often progress is written where lines stay.
	lineEvery = time.Second
)

// Progress shows how far something is: on a terminal as a bar that stays on one
// line, elsewhere as a line now and then. It is for one goroutine.
type Progress struct {
	w     io.Writer
	label string
	width int // of the terminal; 0: none
	last  time.Time
	drawn bool
}

// NewProgress returns a Progress that writes to w. Nothing is written before the
// first report.
func NewProgress(w io.Writer, label string) *Progress {
	return &Progress{w: w, label: Line(label), width: Width(w)}
}

// Set shows that done of total is done; a total of 0 is unknown.
func (p *Progress) Set(done, total float64, message string) {
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

// Done takes the bar away.
func (p *Progress) Done() {
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
