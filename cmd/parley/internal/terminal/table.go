package terminal

import (
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

const (
	gap = 2 // columns between two columns

	// minText is how narrow a column of text may become before it is left out.
	minText = 12
)

// Table writes rows with aligned columns, each row cut to width; 0 cuts nothing.
// The first column is never cut: it holds what has to be typed again. Of the room
// that is left, the last column gets what the others do not need, but the others at
// most a half. All text must be harmless already.
func Table(w io.Writer, width int, head []string, rows [][]string) error {
	widths := make([]int, len(head))
	for _, row := range append([][]string{head}, rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], ansi.StringWidth(cell))
		}
	}
	shown := fit(widths, width)
	var b strings.Builder
	for _, row := range append([][]string{head}, rows...) {
		var line strings.Builder
		for i, cell := range row[:shown] {
			if i > 0 {
				line.WriteString(strings.Repeat(" ", gap))
			}
			if i > 0 {
				cell = ansi.Truncate(cell, widths[i], "…")
			}
			line.WriteString(cell)
			line.WriteString(strings.Repeat(" ", max(widths[i]-ansi.StringWidth(cell), 0)))
		}
		b.WriteString(strings.TrimRight(line.String(), " "))
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// fit narrows widths until a row fits into width, and returns how many columns do.
func fit(widths []int, width int) int {
	if width <= 0 || len(widths) == 0 {
		return len(widths)
	}
	last := len(widths) - 1
	narrowed := slices.Clone(widths)
	room := width - widths[0]
	for i := 1; i <= last; i++ {
		room -= gap
		if room < min(minText, widths[i]) {
			return fit(widths[:i], width) // what is left has its room
		}
		if i < last {
			narrowed[i] = min(widths[i], max(room/2, minText))
		} else {
			narrowed[i] = min(widths[i], room)
		}
		room -= narrowed[i]
	}
	copy(widths, narrowed)
	return len(widths)
}
