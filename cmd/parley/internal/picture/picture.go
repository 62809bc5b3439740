// Package picture shows images in terminals.
package picture

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	_ "image/gif"  // a format of image.Decode
	_ "image/jpeg" // a format of image.Decode
	"image/png"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/ansi/iterm2"
)

// Bounds of an image.
const (
	maxData   = 16 << 20 // bytes
	maxPixels = 9 << 20  // an image of 4096 × 2304
)

// Protocol is a way to show images in a terminal.
type Protocol string

// Protocols.
const (
	Off    Protocol = "off"
	Kitty  Protocol = "kitty" // https://sw.kovidgoyal.net/kitty/graphics-protocol/
	ITerm2 Protocol = "iterm" // https://iterm2.com/documentation-images.html
	Sixel  Protocol = "sixel"
)

// Auto is the name of the protocol that Detect returns.
const Auto = "auto"

// Names are the values that Parse accepts.
func Names() []string {
	return []string{Auto, string(Kitty), string(ITerm2), string(Sixel), string(Off)}
}

// Parse returns the protocol with a name. getenv returns the values of environment variables.
func Parse(name string, getenv func(string) string) (Protocol, error) {
	switch p := Protocol(name); p {
	case Auto:
		return Detect(getenv), nil
	case Kitty, ITerm2, Sixel, Off:
		return p, nil
	}
	return Off, fmt.Errorf("unknown protocol %q; use one of %s", name, strings.Join(Names(), ", "))
}

// Detect returns the protocol of the terminal that environment variables describe, or Off. It asks the terminal nothing. Within a
// terminal multiplexer it returns Off, because multiplexers do not pass images on.
func Detect(getenv func(string) string) Protocol {
	term, program := getenv("TERM"), getenv("TERM_PROGRAM")
	switch {
	case getenv("TMUX") != "" || getenv("STY") != "" || getenv("ZELLIJ") != "" || strings.HasPrefix(term, "tmux") || strings.HasPrefix(term, "screen"):
		return Off
	case term == "xterm-kitty" || term == "xterm-ghostty" || getenv("KITTY_WINDOW_ID") != "" || program == "ghostty" || getenv("KONSOLE_VERSION") != "":
		return Kitty
	case program == "iTerm.app" || program == "WezTerm" || program == "mintty" || getenv("LC_TERMINAL") == "iTerm2":
		return ITerm2
	case term == "foot" || strings.HasPrefix(term, "foot-") || term == "mlterm" || strings.HasSuffix(term, "-sixel"):
		return Sixel
	}
	return Off
}

// Encode returns the escape sequences that show a PNG, JPEG or GIF image on a screen, and a newline. An image that is larger than the
// screen is shown smaller. Encode returns an error for an image that cannot be decoded or is too large.
func (p Protocol) Encode(data []byte, screen Screen) (string, error) {
	if len(data) > maxData {
		return "", fmt.Errorf("image is too large: the limit is %d bytes", maxData)
	}
	config, _, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return "", err
	}
	if config.Width <= 0 || config.Height <= 0 || config.Width > maxPixels/config.Height {
		return "", fmt.Errorf("image is too large: the limit is %d pixels", maxPixels)
	}
	decoded, format, err := image.Decode(bytes.NewReader(data)) // terminals may show nothing for a broken image
	if err != nil {
		return "", err
	}
	switch p {
	case Kitty:
		if format != "png" { // the only file format of the protocol
			var b bytes.Buffer
			if err := png.Encode(&b, decoded); err != nil {
				return "", err
			}
			data = b.Bytes()
		}
		return kitty(data, screen.shrink(config.Width, config.Height)), nil
	case ITerm2:
		columns, rows := screen.shrink(config.Width, config.Height).cells()
		return ansi.ITerm2(iterm2.File{
			Inline: true, Size: int64(len(data)), Width: columns, Height: rows, Content: []byte(base64.StdEncoding.EncodeToString(data)),
		}) + "\n", nil
	case Sixel:
		return sixel(screen.scale(decoded)) + "\n", nil
	}
	return "", errors.New("images are off")
}

// kittyChunk is the maximum number of characters of an escape sequence.
const kittyChunk = 4096

// kitty returns the sequences for a PNG file.
func kitty(data []byte, smaller extent) string {
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
