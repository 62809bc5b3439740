package picture

import (
	"fmt"
	"image"
	"maps"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// levels is the number of steps of each of red, green and blue. A sixel image has at most 216 colours.
const levels = 6

// bandHeight is the number of rows of pixels that the characters of a sixel image describe: one bit for each.
const bandHeight = 6

// thresholds dither the colours (a Bayer matrix).
var thresholds = [4][4]uint32{{0, 8, 2, 10}, {12, 4, 14, 6}, {3, 11, 1, 9}, {15, 7, 13, 5}}

// sixel returns the escape sequence for an image. Pixels that are rather transparent than opaque are left out.
func sixel(m image.Image) string {
	size := m.Bounds()
	var b strings.Builder
	fmt.Fprintf(&b, `"1;1;%d;%d`, size.Dx(), size.Dy())
	var defined [levels * levels * levels]bool
	for top := 0; top < size.Dy(); top += bandHeight {
		if top > 0 {
			b.WriteByte('-') // to the next band
		}
		rows := make(map[int][]byte) // the bits of the columns by colour
		for y := top; y < min(top+bandHeight, size.Dy()); y++ {
			for x := range size.Dx() {
				red, green, blue, alpha := m.At(size.Min.X+x, size.Min.Y+y).RGBA()
				if alpha < 0x8000 {
					continue
				}
				colour := (step(red, x, y)*levels+step(green, x, y))*levels + step(blue, x, y)
				if rows[colour] == nil {
					rows[colour] = make([]byte, size.Dx())
				}
				rows[colour][x] |= 1 << (y - top)
			}
		}
		for i, colour := range slices.Sorted(maps.Keys(rows)) {
			if i > 0 {
				b.WriteByte('$') // back to the first column
			}
			fmt.Fprintf(&b, "#%d", colour)
			if !defined[colour] {
				defined[colour] = true
				percent := 100 / (levels - 1)
				fmt.Fprintf(&b, ";2;%d;%d;%d", colour/levels/levels*percent, colour/levels%levels*percent, colour%levels*percent)
			}
			writeRuns(&b, rows[colour])
		}
	}
	return ansi.SixelGraphics(0, 1, 0, []byte(b.String()))
}

// step returns the step of a component of a colour, dithered by the place of its pixel.
func step(component uint32, x, y int) int {
	scaled := component * (levels - 1)
	return int(min((scaled+thresholds[y%4][x%4]*0xffff/16)/0xffff, levels-1))
}

// writeRuns writes the columns of a colour. A run of equal columns is written as its length and one character.
func writeRuns(b *strings.Builder, columns []byte) {
	for len(columns) > 0 {
		n := 1
		for n < len(columns) && columns[n] == columns[0] {
			n++
		}
		character := string(rune('?' + columns[0]))
		if n > 3 {
			fmt.Fprintf(b, "!%d%s", n, character)
		} else {
			b.WriteString(strings.Repeat(character, n))
		}
		columns = columns[n:]
	}
}
