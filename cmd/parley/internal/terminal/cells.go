package terminal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

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

// Shortened returns a message as one sanitised line of limited length.
func Shortened(message string) string {
	line := Message([]byte(message))
	const limit = 300
	if runes := []rune(line); len(runes) > limit {
		return string(runes[:limit]) + "…"
	}
	return line
}
