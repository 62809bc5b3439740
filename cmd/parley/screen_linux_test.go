//go:build browser

package main

import (
	"fmt"
	"html"
	"strconv"
	"strings"
)

// cell is a character of a screen and the style in which it is shown, in CSS.
type cell struct {
	r     rune
	style string
}

// cellsOf returns the lines that a terminal shows after it has received text. It knows the escape sequences that set
// colours, move the cursor and clear parts of the screen, and ignores others. Lines do not wrap, and the screen does
// not scroll.
func cellsOf(text string) [][]cell {
	lines, x, y, style := [][]cell{nil}, 0, 0, ""
	put := func(r rune) {
		for len(lines) <= y {
			lines = append(lines, nil)
		}
		for len(lines[y]) <= x {
			lines[y] = append(lines[y], cell{r: ' '})
		}
		lines[y][x] = cell{r, style}
		x++
	}
	runes := []rune(text)
	for i := 0; i < len(runes); i++ {
		switch r := runes[i]; {
		case r == '\r':
			x = 0
		case r == '\n':
			y++
		case r == '\b':
			x = max(x-1, 0)
		case r == 0x1b && i+1 < len(runes) && runes[i+1] == '[':
			end := i + 2
			for end < len(runes) && (runes[end] < '@' || runes[end] > '~') {
				end++
			}
			if end == len(runes) {
				break
			}
			parameters := string(runes[i+2 : end])
			n, err := strconv.Atoi(parameters)
			if err != nil {
				n = 1
			}
			switch runes[end] {
			case 'A':
				y = max(y-n, 0)
			case 'B':
				y += n
			case 'C':
				x += n
			case 'D':
				x = max(x-n, 0)
			case 'J':
				lines = lines[:min(y+1, len(lines))]
				fallthrough
			case 'K':
				if y < len(lines) {
					lines[y] = lines[y][:min(x, len(lines[y]))]
				}
			case 'm':
				style = styleAfter(style, parameters)
			}
			i = end
		case r >= ' ':
			put(r)
		}
	}
	return lines
}

// screenOf returns the text of a screen.
func screenOf(text string) string {
	var b strings.Builder
	for _, line := range cellsOf(text) {
		var plain strings.Builder
		for _, c := range line {
			plain.WriteRune(c.r)
		}
		b.WriteString(strings.TrimRight(plain.String(), " ") + "\n")
	}
	return b.String()
}

// The colours of a terminal, from black to white, and their bright forms.
var palette = strings.Fields("#484f58 #ff7b72 #3fb950 #d29922 #58a6ff #bc8cff #39c5cf #b1bac4 " +
	"#6e7681 #ffa198 #56d364 #e3b341 #79c0ff #d2a8ff #56d4dd #f0f6fc")

// styleAfter returns the style after the escape sequence with parameters, ESC [ parameters m.
func styleAfter(style, parameters string) string {
	codes := strings.Split(parameters, ";")
	for i := 0; i < len(codes); i++ {
		code, _ := strconv.Atoi(codes[i])
		switch {
		case code == 0:
			style = ""
		case code == 1:
			style += "font-weight:bold;"
		case code == 2:
			style += "opacity:.7;"
		case code >= 30 && code < 38:
			style += "fill:" + palette[code-30] + ";"
		case code >= 90 && code < 98:
			style += "fill:" + palette[code-82] + ";"
		case (code == 38 || code == 48) && i+4 < len(codes) && codes[i+1] == "2":
			if code == 38 {
				style += "fill:rgb(" + strings.Join(codes[i+2:i+5], ",") + ");"
			}
			i += 4
		case code == 38 || code == 48: // a colour of the palette of 256
			i += 2
		}
	}
	return style
}

// pictureOf returns a picture of a screen, in SVG.
func pictureOf(text string) []byte {
	const width, height, margin = 8.4, 19.0, 16.0
	lines := cellsOf(strings.TrimRight(text, "\r\n"))
	columns := 80
	for _, line := range lines {
		columns = max(columns, len(line))
	}
	var b strings.Builder
	w, h := 2*margin+width*float64(columns), 2*margin+height*float64(len(lines))
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-size="14" `+
		`font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace">`+"\n", w, h)
	fmt.Fprintf(&b, `<rect width="%.0f" height="%.0f" rx="8" fill="#0d1117"/>`+"\n", w, h)
	for y, line := range lines {
		for x := 0; x < len(line); {
			end := x
			var run strings.Builder
			for ; end < len(line) && line[end].style == line[x].style; end++ {
				run.WriteRune(line[end].r)
			}
			if trimmed := strings.TrimRight(run.String(), " "); trimmed != "" {
				style := "fill:#e6edf3;" + line[x].style
				fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" textLength="%.1f" style="%s" xml:space="preserve">%s</text>`+
					"\n",
					margin+width*float64(x), margin+height*float64(y)+height*0.75, width*float64(len([]rune(trimmed))),
					style,
					html.EscapeString(trimmed))
			}
			x = end
		}
	}
	return []byte(b.String() + "</svg>\n")
}
