package use

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

func TestTerminalsAreDetectedByTheirEnvironment(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want imageProtocol
	}{
		{nil, imagesOff},
		{map[string]string{"TERM": "xterm-256color"}, imagesOff},
		{map[string]string{"TERM": "xterm-kitty"}, imagesKitty},
		{map[string]string{"TERM": "xterm-256color", "KITTY_WINDOW_ID": "1"}, imagesKitty},
		{map[string]string{"TERM": "xterm-ghostty"}, imagesKitty},
		{map[string]string{"TERM_PROGRAM": "ghostty"}, imagesKitty},
		{map[string]string{"KONSOLE_VERSION": "230800"}, imagesKitty},
		{map[string]string{"TERM_PROGRAM": "iTerm.app"}, imagesITerm2},
		{map[string]string{"LC_TERMINAL": "iTerm2"}, imagesITerm2},
		{map[string]string{"TERM_PROGRAM": "WezTerm"}, imagesITerm2},
		{map[string]string{"TERM_PROGRAM": "Apple_Terminal"}, imagesOff},
		{map[string]string{"TERM_PROGRAM": "vscode"}, imagesOff},
		{map[string]string{"TERM": "xterm-kitty", "TMUX": "/tmp/tmux"}, imagesOff},
		{map[string]string{"TERM": "tmux-256color", "KITTY_WINDOW_ID": "1"}, imagesOff},
		{map[string]string{"TERM": "screen", "TERM_PROGRAM": "iTerm.app"}, imagesOff},
		{map[string]string{"TERM_PROGRAM": "WezTerm", "ZELLIJ": "0"}, imagesOff},
	} {
		if got, err := parseImages(imagesAuto, func(name string) string { return c.env[name] }); got != c.want || err != nil {
			t.Errorf("%v: %q, %v, want %q", c.env, got, err, c.want)
		}
	}
	if got, err := parseImages("kitty", nil); got != imagesKitty || err != nil {
		t.Errorf("kitty: %q, %v", got, err)
	}
	if _, err := parseImages("vt100", nil); err == nil || !strings.Contains(err.Error(), "auto, kitty, iterm, off") {
		t.Errorf("vt100: %v", err)
	}
}

var screen = screenSize{columns: 10, rows: 5} // 80 × 64 pixels

// noise returns an image that cannot be compressed.
func noise(width, height int) image.Image {
	m := image.NewNRGBA(image.Rect(0, 0, width, height))
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(m.Pix) // never fails
	return m
}

func encodePNG(t *testing.T, m image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, png.Encode(&b, m))
	return b.Bytes()
}

func encoded(t *testing.T, p imageProtocol, data []byte) string {
	t.Helper()
	text, err := p.encode(data, screen)
	if err != nil || !strings.HasSuffix(text, "\n") {
		t.Fatalf("%s: %q, %v", p, text, err)
	}
	return strings.TrimSuffix(text, "\n")
}

// fromKitty returns the file in the sequences of the imagesKitty protocol, and the options of the first one.
func fromKitty(t *testing.T, text string) (data []byte, options string) {
	t.Helper()
	all := regexp.MustCompile(`\x1b_G([^;]*);([A-Za-z0-9+/=]*)\x1b\\`).FindAllStringSubmatch(text, -1)
	var whole, payload string
	for i, m := range all {
		last := i == len(all)-1
		if len(m[2]) > 4096 || !last && len(m[2])%4 != 0 || strings.HasSuffix(m[1], "m=0") != last ||
			!strings.Contains(m[1], "q=2") {
			t.Errorf("sequence %d of %d has the options %s and %d characters", i, len(all), m[1], len(m[2]))
		}
		whole, payload = whole+m[0], payload+m[2]
	}
	if whole != text || len(all) == 0 {
		t.Fatalf("the text is %.200q", text)
	}
	data = must.Get(base64.StdEncoding.DecodeString(payload))(t)
	return data, all[0][1]
}

func TestKittyReceivesAPNGFile(t *testing.T) {
	small := encodePNG(t, noise(3, 2))
	data, options := fromKitty(t, encoded(t, imagesKitty, small))
	if !bytes.Equal(data, small) || options != "a=T,f=100,q=2,m=0" {
		t.Errorf("options %s, %d bytes, want %d", options, len(data), len(small))
	}
	// Larger than the screen.
	for _, c := range []struct {
		width, height int
		want          string
	}{{81, 20, "a=T,f=100,q=2,c=10,m=1"}, {20, 65, "a=T,f=100,q=2,r=4,m=1"}, {160, 128, "a=T,f=100,q=2,r=4,m=1"},
		{80, 64, "a=T,f=100,q=2,m=1"}} {
		large := encodePNG(t, noise(c.width, c.height))
		if data, options := fromKitty(t, encoded(t, imagesKitty, large)); !bytes.Equal(data, large) || options != c.want {
			t.Errorf("%d × %d: options %s, %d bytes, want %s, %d bytes", c.width, c.height, options, len(data), c.want,
				len(large))
		}
	}
	var photo bytes.Buffer
	must.Do(t, jpeg.Encode(&photo, noise(16, 8), nil))
	data, _ = fromKitty(t, encoded(t, imagesKitty, photo.Bytes()))
	if m, err := png.Decode(bytes.NewReader(data)); err != nil || m.Bounds().Size() != image.Pt(16, 8) {
		t.Errorf("a JPEG image becomes %v", err)
	}
}

func TestITerm2ReceivesTheFile(t *testing.T) {
	small := encodePNG(t, noise(3, 2))
	want := "\x1b]1337;File=size=" + strconv.Itoa(len(small)) + ";inline=1:" +
		base64.StdEncoding.EncodeToString(small) + "\a"
	if got := encoded(t, imagesITerm2, small); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := encoded(t, imagesITerm2, encodePNG(t, noise(81, 2))); !strings.Contains(got, ";width=10;inline=1:") {
		t.Errorf("a wide image is %.80q", got)
	}
	if got := encoded(t, imagesITerm2, encodePNG(t, noise(2, 65))); !strings.Contains(got, ";height=4;inline=1:") {
		t.Errorf("a tall image is %.80q", got)
	}
}

func TestBrokenAndLargeImagesAreErrors(t *testing.T) {
	good := encodePNG(t, noise(30, 30))
	huge := slices.Clone(good)
	binary.BigEndian.PutUint32(huge[16:], 1<<15)
	binary.BigEndian.PutUint32(huge[20:], 1<<15)
	binary.BigEndian.PutUint32(huge[29:], crc32.ChecksumIEEE(huge[12:29]))
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty":     {nil, "unknown format"},
		"text":      {[]byte("\x1b]1337;File=:AAAA\a"), "unknown format"},
		"cut":       {good[:len(good)/2], "not enough pixel data"},
		"huge":      {huge, "the limit is 9437184 pixels"},
		"too large": {make([]byte, maxImageData+1), "the limit is 16777216 bytes"},
	} {
		for _, p := range []imageProtocol{imagesKitty, imagesITerm2} {
			if text, err := p.encode(c.data, screen); err == nil || text != "" ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %s: %.80q, %v, want %s", p, name, text, err, c.want)
			}
		}
	}
}
