package terminal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

const (
	gap       = 2  // spaces between two columns
	minColumn = 12 // a smaller column is omitted
)

// Table writes rows with aligned columns, truncated to width; a width of 0 means no truncation. The first column is
// never truncated, because it contains names that the user types again. Each further column gets half of the remaining
// width, or what the columns after it do not need, and the last column gets the rest. The caller sanitises the text.
func Table(w io.Writer, width int, head []string, rows [][]string) error {
	widths := columns(head, rows, ansi.StringWidth)
	shown := fit(widths, width)
	return write(w, widths, head, rows, func(i int, cell string) []string {
		switch {
		case i >= shown:
			return nil
		case i > 0:
			cell = ansi.Truncate(cell, widths[i], "…")
		}
		return []string{cell}
	})
}

// WrappedTable writes rows with aligned columns as Table does, but with all columns and all of their text: what does
// not fit into a line continues on the next one.
func WrappedTable(w io.Writer, width int, head []string, rows [][]string) error {
	widths := columns(head, rows, ansi.StringWidth)
	if width > 0 {
		narrow(widths, columns(head, rows, longestWord), width)
	}
	return write(w, widths, head, rows, func(i int, cell string) []string { return Wrap(cell, widths[i]) })
}

// columns returns the maximum width of the cells of each column. Width measures one.
func columns(head []string, rows [][]string, width func(cell string) int) []int {
	widths := make([]int, len(head))
	for _, row := range append([][]string{head}, rows...) {
		for i, cell := range row[:min(len(row), len(head))] {
			widths[i] = max(widths[i], width(cell))
		}
	}
	return widths
}

// write writes rows. lines returns the lines of a cell in column i.
func write(w io.Writer, widths []int, head []string, rows [][]string, lines func(i int, cell string) []string) error {
	var b strings.Builder
	for _, row := range append([][]string{head}, rows...) {
		var cells [][]string
		height := 1
		for i, cell := range row[:min(len(row), len(head))] {
			cells = append(cells, lines(i, cell))
			height = max(height, len(cells[i]))
		}
		for y := range height {
			var line strings.Builder
			for i, lines := range cells {
				cell := ""
				if y < len(lines) {
					cell = lines[y]
				}
				line.WriteString(cell + strings.Repeat(" ", max(widths[i]-ansi.StringWidth(cell), 0)+gap))
			}
			b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// longestWord returns the width of the longest word of a cell.
func longestWord(cell string) (width int) {
	for word := range strings.FieldsSeq(cell) {
		width = max(width, ansi.StringWidth(word))
	}
	return width
}

// narrow reduces widths until a row fits into width: the widest columns become equally wide, but not narrower than
// their longest words, unless these are longer than a third of width.
func narrow(widths, words []int, width int) {
	order := make([]int, len(widths)) // the columns, from the narrowest to the widest
	needed := 0                       // for words of columns that have no width yet
	for i := range order {
		order[i], words[i] = i, min(words[i], width/3)
		needed += words[i]
	}
	slices.SortStableFunc(order, func(a, b int) int { return widths[a] - widths[b] })
	remaining := width - gap*(len(widths)-1)
	for done, i := range order {
		needed -= words[i]
		fair := min(remaining/(len(widths)-done), remaining-needed)
		widths[i] = min(widths[i], max(fair, words[i], 1))
		remaining -= widths[i]
	}
}

// Wrap returns the lines of a text, each of at most width columns; a width of 0 means one line. A word that is longer
// than a line is divided.
func Wrap(text string, width int) (lines []string) {
	if width <= 0 || ansi.StringWidth(text) <= width {
		return []string{text}
	}
	line := ""
	for word := range strings.FieldsSeq(text) {
		for next := strings.TrimSpace(line + " " + word); ; next = word {
			if ansi.StringWidth(next) <= width {
				line = next
				break
			}
			if line != "" {
				lines, line = append(lines, line), ""
				continue
			}
			part := ansi.Truncate(word, width, "")
			if part == "" { // a wide character in a column of one
				part = word
			}
			lines, word = append(lines, part), word[len(part):]
		}
	}
	return append(lines, line)
}

// fit reduces widths until a row fits into width, and returns the number of columns that are shown.
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

// Row returns sanitised cells.
func Row(cells ...string) []string {
	for i := range cells {
		cells[i] = Line(cells[i])
	}
	return cells
}

// NotedTable prints a table without the columns that are empty, and notes about its rows.
func NotedTable(w io.Writer, head []string, rows [][]string, notes string) error {
	for i := len(head) - 1; i >= 0; i-- {
		if slices.ContainsFunc(rows, func(row []string) bool { return row[i] != "" }) {
			continue
		}
		head = slices.Delete(head, i, i+1)
		for j := range rows {
			rows[j] = slices.Delete(rows[j], i, i+1)
		}
	}
	if err := WrappedTable(w, Width(w), head, rows); err != nil || notes == "" {
		return err
	}
	_, err := fmt.Fprint(w, "\n", notes)
	return err
}

// Message returns a message as one sanitised line.
func Message(message []byte) string {
	var compact bytes.Buffer
	if json.Compact(&compact, message) == nil {
		return JSON(compact.String())
	}
	return Line(string(message))
}
