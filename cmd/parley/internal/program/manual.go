package program

import (
	"regexp"
	"strings"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
)

var (
	link    = regexp.MustCompile(`\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)`)
	item    = regexp.MustCompile(`^( *)([-*]|[0-9]+\.) +`)
	heading = regexp.MustCompile(`^(#+) +`)
)

// ManualText returns a page of the documentation, which is Markdown, as plain text for a terminal. It knows the parts
// of Markdown that the pages use: headings, paragraphs, lists, tables, code and links. The lines have at most width
// columns, except for code, which it does not wrap.
func ManualText(page string, width int) string {
	w := &manualWriter{width: width}
	lines := strings.Split(page, "\n")
	for i := 0; i < len(lines); {
		i += w.block(lines[i:])
	}
	return strings.TrimSpace(w.text.String()) + "\n"
}

// manualWriter writes the blocks of a page.
type manualWriter struct {
	width int
	text  strings.Builder
}

// block writes the block at the beginning of lines, and returns the number of its lines.
func (w *manualWriter) block(lines []string) int {
	first := lines[0]
	switch {
	case strings.TrimSpace(first) == "":
		return 1
	case strings.HasPrefix(first, "```"):
		n := 1 + until(lines[1:], func(line string) bool { return strings.HasPrefix(line, "```") })
		w.code(lines[1:n], "")
		return n + 1
	case strings.HasPrefix(first, "    "):
		n := until(lines, func(line string) bool { return line != "" && !strings.HasPrefix(line, "    ") })
		w.code(lines[:n], "    ")
		return n
	case strings.HasPrefix(first, "|"):
		n := until(lines, func(line string) bool { return !strings.HasPrefix(line, "|") })
		w.table(lines[:n])
		return n
	case heading.MatchString(first):
		w.heading(first)
		return 1
	case item.MatchString(first):
		n := 1 + until(lines[1:], func(line string) bool { return line == "" || item.MatchString(line) })
		w.paragraph(lines[:n], item.FindString(first))
		if n == len(lines) || !item.MatchString(lines[n]) {
			w.text.WriteString("\n")
		}
		return n
	}
	n := until(lines, func(line string) bool {
		return line == "" || strings.HasPrefix(line, "```") || strings.HasPrefix(line, "|") ||
			heading.MatchString(line) ||
			item.MatchString(line)
	})
	w.paragraph(lines[:n], "")
	w.text.WriteString("\n")
	return n
}

// until returns the number of lines before the first that ends a block.
func until(lines []string, ends func(line string) bool) int {
	for i, line := range lines {
		if ends(line) {
			return i
		}
	}
	return len(lines)
}

func (w *manualWriter) heading(line string) {
	mark := heading.FindString(line)
	text := plain(line[len(mark):])
	w.text.WriteString(text + "\n")
	if level := len(strings.TrimSpace(mark)); level <= 2 {
		w.text.WriteString(strings.Repeat(string("=-"[level-1]), min(len([]rune(text)), w.width)) + "\n")
	}
	w.text.WriteString("\n")
}

// paragraph writes lines as one paragraph, which begins with the mark of an item unless it is empty.
func (w *manualWriter) paragraph(lines []string, mark string) {
	lines[0] = strings.TrimPrefix(lines[0], mark)
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	indent := strings.Repeat(" ", len(mark))
	for i, line := range terminal.Wrap(plain(strings.Join(lines, " ")), w.width-len(mark)) {
		if i == 0 {
			w.text.WriteString(mark + line + "\n")
		} else {
			w.text.WriteString(indent + line + "\n")
		}
	}
}

// code writes a block of code, whose lines have an indentation.
func (w *manualWriter) code(lines []string, indentation string) {
	for _, line := range strings.Split(strings.TrimRight(strings.Join(lines, "\n"), "\n"), "\n") {
		w.text.WriteString(strings.TrimRight("    "+strings.TrimPrefix(line, indentation), " ") + "\n")
	}
	w.text.WriteString("\n")
}

// table writes a table. The second line has the dashes below the head.
func (w *manualWriter) table(lines []string) {
	var rows [][]string
	for i, line := range lines {
		if i != 1 {
			rows = append(rows, cells(line))
		}
	}
	_ = terminal.WrappedTable(&w.text, w.width, rows[0], rows[1:]) // a builder returns no errors
	w.text.WriteString("\n")
}

// cells returns the cells of a row. \| is a vertical line in a cell.
func cells(line string) (all []string) {
	const escaped = "\x00"
	line = strings.Trim(strings.ReplaceAll(strings.TrimSpace(line), `\|`, escaped), "|")
	for cell := range strings.SplitSeq(line, "|") {
		all = append(all, plain(strings.TrimSpace(strings.ReplaceAll(cell, escaped, "|"))))
	}
	return all
}

// plain returns a text without links and bold words. It names other pages as parley help does.
func plain(text string) string {
	return link.ReplaceAllStringFunc(strings.ReplaceAll(text, "**", ""), func(found string) string {
		m := link.FindStringSubmatch(found)
		page, _, _ := strings.Cut(m[2], "#")
		name, isPage := strings.CutSuffix(page, ".md")
		switch isPage = isPage && !strings.Contains(name, "/"); {
		case isPage && m[1] == page:
			return "`parley help " + name + "`"
		case isPage:
			return m[1] + " (`parley help " + name + "`)"
		case strings.Contains(m[2], "://") && m[1] != m[2]:
			return m[1] + " (" + m[2] + ")"
		}
		return m[1]
	})
}
