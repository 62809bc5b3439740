package main

import (
	"strconv"
	"strings"
)

// screenOf returns the lines that a terminal shows after it has received text. It knows the escape sequences that move the
// cursor and clear parts of the screen, and ignores others. Lines do not wrap, and the screen does not scroll.
func screenOf(text string) string {
	lines, x, y := [][]rune{nil}, 0, 0
	put := func(r rune) {
		for len(lines) <= y {
			lines = append(lines, nil)
		}
		for len(lines[y]) <= x {
			lines[y] = append(lines[y], ' ')
		}
		lines[y][x] = r
		x++
	}
	runes := []rune(text)
	for i := 0; i < len(runes); i++ {
		switch r := runes[i]; {
		case r == '\r':
			x = 0
		case r == '\n':
			y++
		case r == 0x1b && i+1 < len(runes) && runes[i+1] == '[':
			end := i + 2
			for end < len(runes) && (runes[end] < '@' || runes[end] > '~') {
				end++
			}
			if end == len(runes) {
				break
			}
			n, err := strconv.Atoi(string(runes[i+2 : end]))
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
			case 'K':
				if y < len(lines) {
					lines[y] = lines[y][:min(x, len(lines[y]))]
				}
			}
			i = end
		case r >= ' ':
			put(r)
		}
	}
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(strings.TrimRight(string(line), " ") + "\n")
	}
	return b.String()
}
