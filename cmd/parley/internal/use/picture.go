package use

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	_ "image/gif"
	_ "image/jpeg"
	"image/png"
	"os"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/ansi/iterm2"
	"github.com/charmbracelet/x/term"
)

// Bounds of an image.
const (
	maxImageData   = 16 << 20 // bytes
	maxImagePixels = 9 << 20  // an image of 4096 × 2304
)

// imageProtocol is a way to show images in a terminal.
type imageProtocol string

// Protocols.
const (
	imagesOff    imageProtocol = "off"
	imagesKitty  imageProtocol = "kitty" // https://sw.kovidgoyal.net/kitty/graphics-protocol/
	imagesITerm2 imageProtocol = "iterm" // https://iterm2.com/documentation-images.html
)

// imagesAuto is the name of the protocol that detectImages returns.
const imagesAuto = "auto"

// imageProtocols are the values that parseImages accepts.
func imageProtocols() []string {
	return []string{imagesAuto, string(imagesKitty), string(imagesITerm2), string(imagesOff)}
}

// parseImages returns the protocol with a name. getenv returns the values of environment variables.
func parseImages(name string, getenv func(string) string) (imageProtocol, error) {
	switch p := imageProtocol(name); p {
	case imagesAuto:
		return detectImages(getenv), nil
	case imagesKitty, imagesITerm2, imagesOff:
		return p, nil
	}
	return imagesOff, fmt.Errorf("unknown protocol %q; use one of %s", name, strings.Join(imageProtocols(), ", "))
}

// detectImages returns the protocol of the terminal that environment variables describe, or imagesOff. It asks the
// terminal nothing. Within a terminal multiplexer it returns imagesOff, because multiplexers do not pass images on.
func detectImages(getenv func(string) string) imageProtocol {
	term, program := getenv("TERM"), getenv("TERM_PROGRAM")
	switch {
	case getenv("TMUX") != "" || getenv("STY") != "" || getenv("ZELLIJ") != "" || strings.HasPrefix(term, "tmux") ||
		strings.HasPrefix(term, "screen"):
		return imagesOff
	case term == "xterm-kitty" || term == "xterm-ghostty" || getenv("KITTY_WINDOW_ID") != "" || program == "ghostty" ||
		getenv("KONSOLE_VERSION") != "":
		return imagesKitty
	case program == "iTerm.app" || program == "WezTerm" || program == "mintty" || getenv("LC_TERMINAL") == "iTerm2":
		return imagesITerm2
	}
	return imagesOff
}

// encode returns the escape sequences that show a PNG, JPEG or GIF image on a screen, and a newline. An image that is
// larger than the screen is shown smaller. encode returns an error for an image that cannot be decoded or is too large.
func (p imageProtocol) encode(data []byte, screen screenSize) (string, error) {
	if len(data) > maxImageData {
		return "", fmt.Errorf("image is too large: the limit is %d bytes", maxImageData)
	}
	config, _, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return "", err
	}
	if config.Width <= 0 || config.Height <= 0 || config.Width > maxImagePixels/config.Height {
		return "", fmt.Errorf("image is too large: the limit is %d pixels", maxImagePixels)
	}
	decoded, format, err := image.Decode(bytes.NewReader(data)) // terminals may show nothing for a broken image
	if err != nil {
		return "", err
	}
	switch p {
	case imagesKitty:
		if format != "png" { // the only file format of the protocol
			var b bytes.Buffer
			if err := png.Encode(&b, decoded); err != nil {
				return "", err
			}
			data = b.Bytes()
		}
		return kitty(data, screen.shrink(config.Width, config.Height)), nil
	case imagesITerm2:
		columns, rows := screen.shrink(config.Width, config.Height).cells()
		return ansi.ITerm2(iterm2.File{
			Inline: true, Size: int64(len(data)), Width: columns, Height: rows,
			Content: []byte(base64.StdEncoding.EncodeToString(data)),
		}) + "\n", nil
	}
	return "", errors.New("images are off")
}

// kittyChunk is the maximum number of characters of an escape sequence.
const kittyChunk = 4096

// kitty returns the sequences for a PNG file.
func kitty(data []byte, smaller imageExtent) string {
	var b strings.Builder
	text := base64.StdEncoding.EncodeToString(data)
	options := []string{"a=T", "f=100", "q=2"} // show the image of a PNG file; answer nothing
	if smaller.columns > 0 {
		options = append(options, "c="+strconv.Itoa(smaller.columns))
	}
	if smaller.rows > 0 {
		options = append(options, "r="+strconv.Itoa(smaller.rows))
	}
	for len(text) > 0 {
		n := min(len(text), kittyChunk)
		more := "m=0"
		if n < len(text) {
			more = "m=1"
		}
		b.WriteString(ansi.KittyGraphics([]byte(text[:n]), append(options, more)...))
		text, options = text[n:], []string{"q=2"}
	}
	return b.String() + "\n"
}

// screenSize is the size of a terminal.
type screenSize struct{ columns, rows int }

// screenOf returns the size of a terminal.
func screenOf(f *os.File) screenSize {
	columns, rows, _ := term.GetSize(f.Fd())
	if columns <= 0 || rows <= 0 {
		return screenSize{80, 24}
	}
	return screenSize{columns, rows}
}

// The size of a cell that is assumed, in pixels: few terminals tell it.
const cellWidth, cellHeight = 8, 16

// imageExtent is the size of a smaller image in cells: one of columns and rows. Both are zero if the image keeps its
// size.
type imageExtent struct{ columns, rows int }

// cells returns the columns and the rows as text, empty for zero.
func (e imageExtent) cells() (columns, rows string) {
	switch {
	case e.columns > 0:
		columns = strconv.Itoa(e.columns)
	case e.rows > 0:
		rows = strconv.Itoa(e.rows)
	}
	return columns, rows
}

// shrink returns the imageExtent of an image of width × height pixels that fits on the screen.
func (s screenSize) shrink(width, height int) imageExtent {
	maxWidth, maxHeight := cellWidth*s.columns, cellHeight*max(s.rows-1, 1) // a row is for the prompt
	switch {
	case width <= maxWidth && height <= maxHeight:
		return imageExtent{}
	case width*maxHeight > height*maxWidth:
		return imageExtent{columns: s.columns}
	}
	return imageExtent{rows: max(s.rows-1, 1)}
}
