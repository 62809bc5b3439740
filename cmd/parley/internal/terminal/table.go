package terminal

import (
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

const (
	gap       = 2  // spaces between two columns
	minColumn = 12 // a smaller column is omitted
)

// Table writes rows with aligned columns, truncated to width; a width of 0 means no
// truncation. The first column is never truncated, because it contains names that the
// user types again. Each further column gets half of the remaining width, or what the
// columns after it do not need, and the last column gets the rest. The caller sanitises the text.
func Table(w io.Writer, width int, head []string, rows [][]string) error {
	return table(w, width, head, rows, func(cell string, width int) []string { return []string{ansi.Truncate(cell, width, "…")} })
}

// WrappedTable is Table, but a cell of the last column continues on the next lines.
func WrappedTable(w io.Writer, width int, head []string, rows [][]string) error {
	return table(w, width, head, rows, func(cell string, width int) []string { return strings.Split(ansi.Wrap(cell, width, ""), "\n") })
}

// table writes a table. last returns the lines of a cell of the last column.
func table(w io.Writer, width int, head []string, rows [][]string, last func(cell string, width int) []string) error {
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
			lines := []string{cell}
			switch {
			case i == len(head)-1:
				lines = last(cell, widths[i])
			case i > 0:
				lines[0] = ansi.Truncate(cell, widths[i], "…")
			}
			indent := ansi.StringWidth(line.String())
			line.WriteString(strings.Join(lines, "\n"+strings.Repeat(" ", indent)))
			line.WriteString(strings.Repeat(" ", max(widths[i]-ansi.StringWidth(lines[0]), 0)))
		}
		b.WriteString(strings.TrimRight(line.String(), " "))
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// fit reduces widths until a row fits into width, and returns the number of columns that
// are shown.
func fit(widths []int, width int) int {
	if width <= 0 || len(widths) == 0 {
		return len(widths)
	}
	last := len(widths) - 1
	reduced := slices.Clone(widths)
	remaining := width - widths[0]
	for i := 1; i <= last; i++ {
		remaining -= gap
		if remaining < min(minColumn, widths[i]) {
			return fit(widths[:i], width)
		}
		if i < last {
			rest := 0
			for _, w := range widths[i+1:] {
				rest += gap + w
			}
			reduced[i] = min(widths[i], max(remaining/2, remaining-rest, minColumn))
		} else {
			reduced[i] = min(widths[i], remaining)
		}
		remaining -= reduced[i]
	}
	copy(widths, reduced)
	return len(widths)
}
