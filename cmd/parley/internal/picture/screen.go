package picture

import (
	"image"
	"os"
	"strconv"

	"github.com/charmbracelet/x/term"
)

// Screen is the size of a terminal.
type Screen struct {
	Columns, Rows int
	Width, Height int // in pixels; zero if not known
}

// ScreenOf returns the size of a terminal.
func ScreenOf(f *os.File) Screen {
	var s Screen
	s.Columns, s.Rows, _ = term.GetSize(f.Fd())
	if s.Columns <= 0 || s.Rows <= 0 {
		s.Columns, s.Rows = 80, 24
	}
	s.Width, s.Height = pixels(f)
	return s
}

// limits returns the pixels of the screen, without a row for the prompt. A cell has 8 × 16 pixels if that is not known.
func (s Screen) limits() (width, height int) {
	width, height = s.Width, s.Height
	if width <= 0 || height <= 0 {
		width, height = 8*s.Columns, 16*s.Rows
	}
	return width, height - height/max(s.Rows, 1)
}

// extent is the size of a smaller image in cells: one of columns and rows. Both are zero if the image keeps its size.
type extent struct{ columns, rows int }

// cells returns the columns and the rows as text, empty for zero.
func (e extent) cells() (columns, rows string) {
	switch {
	case e.columns > 0:
		columns = strconv.Itoa(e.columns)
	case e.rows > 0:
		rows = strconv.Itoa(e.rows)
	}
	return columns, rows
}

// shrink returns the extent of an image of width × height pixels that fits on the screen.
func (s Screen) shrink(width, height int) extent {
	maxWidth, maxHeight := s.limits()
	switch {
	case width <= maxWidth && height <= maxHeight:
		return extent{}
	case width*maxHeight > height*maxWidth:
		return extent{columns: s.Columns}
	}
	return extent{rows: max(s.Rows-1, 1)}
}

// scale returns an image that fits on the screen.
func (s Screen) scale(m image.Image) image.Image {
	b := m.Bounds()
	maxWidth, maxHeight := s.limits()
	width, height := b.Dx(), b.Dy()
	if width <= maxWidth && height <= maxHeight {
		return m
	}
	if width*maxHeight > height*maxWidth {
		width, height = maxWidth, max(height*maxWidth/width, 1)
	} else {
		width, height = max(width*maxHeight/height, 1), maxHeight
	}
	scaled := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			scaled.Set(x, y, m.At(b.Min.X+x*b.Dx()/width, b.Min.Y+y*b.Dy()/height))
		}
	}
	return scaled
}
