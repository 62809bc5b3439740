package shell

import (
	"errors"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// ErrInterrupted is the error of ReadLine after Ctrl-C.
var ErrInterrupted = errors.New("interrupted")

const ctrlC = 3

// Editor reads lines at a terminal. Completion and history are those of the caller.
type Editor struct {
	in       *os.File
	terminal *term.Terminal
	keys     *keys

	mu      sync.Mutex
	reading bool
}

// Candidates are the words that can replace the current word of a line.
type Candidates struct {
	Words []string
	Start int  // the index in the line at which the current word begins
	Open  bool // the user continues the word, so no space follows it
}

// NewEditor returns an editor. complete returns the candidates for the current word of the line before the cursor.
func NewEditor(in *os.File, out io.Writer, history *History, complete func(line string) Candidates) *Editor {
	e := &Editor{in: in, keys: &keys{Reader: in}}
	e.terminal = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{e.keys, out}, "")
	e.terminal.History = history
	e.terminal.AutoCompleteCallback = func(line string, at int, key rune) (string, int, bool) {
		if key != '\t' {
			return "", 0, false
		}
		candidates := complete(line[:at])
		start := candidates.Start
		inserted, list := candidates.choose(line[start:at])
		if list != "" {
			_, _ = io.WriteString(e.terminal, list+"\n")
		}
		return line[:start] + inserted + line[at:], start + len(inserted), true
	}
	return e
}

// choose returns what replaces the current word, and the list of candidates if there are several and the word cannot
// become longer.
func (c Candidates) choose(word string) (inserted, list string) {
	switch {
	case len(c.Words) == 0:
		return word, ""
	case len(c.Words) == 1 && c.Open:
		return c.Words[0], ""
	case len(c.Words) == 1:
		return c.Words[0] + " ", ""
	}
	common := c.Words[0]
	for _, w := range c.Words[1:] {
		n := 0
		for n < min(len(common), len(w)) && common[n] == w[n] {
			n++
		}
		common = common[:n]
	}
	common = strings.ToValidUTF8(common, "")
	if len(common) > len(word) {
		return common, ""
	}
	return word, strings.Join(c.Words, "  ")
}

// ReadLine shows a prompt and returns a line. It returns ErrInterrupted after Ctrl-C, and io.EOF after Ctrl-D in an empty
// line, or when the terminal is closed.
func (e *Editor) ReadLine(prompt string) (string, error) {
	state, err := term.MakeRaw(int(e.in.Fd()))
	if err != nil {
		return "", err
	}
	defer func() { _ = term.Restore(int(e.in.Fd()), state) }() // the terminal may be closed
	if width, height, err := term.GetSize(int(e.in.Fd())); err == nil && width > 0 {
		_ = e.terminal.SetSize(width, height) // it never fails for a positive width
	}
	e.terminal.SetPrompt(prompt)
	e.set(true)
	defer e.set(false)
	line, err := e.terminal.ReadLine()
	if e.keys.interrupted {
		e.keys.interrupted = false
		return "", ErrInterrupted
	}
	if errors.Is(err, term.ErrPasteIndicator) {
		err = nil
	}
	return line, err
}

func (e *Editor) set(reading bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reading = reading
}

// Print prints text above the line that is being edited. It reports false, and prints nothing, while no line is.
func (e *Editor) Print(text string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.reading {
		return false
	}
	_, _ = io.WriteString(e.terminal, text)
	return true
}

// keys reads from a terminal. It replaces Ctrl-C, which the terminal of package term takes for the end of the input, by the
// keys that clear the line and end it.
type keys struct {
	io.Reader
	interrupted bool
	rest        []byte
}

// Read implements io.Reader.
func (k *keys) Read(p []byte) (int, error) {
	if len(k.rest) == 0 {
		read := make([]byte, len(p))
		n, err := k.Reader.Read(read)
		if n == 0 {
			return 0, err
		}
		for _, c := range read[:n] {
			if c == ctrlC {
				k.interrupted = true
				k.rest = append(k.rest, 5, 21, '\r') // to the end of the line, delete to its beginning, enter
				break                                // what follows was typed for the line
			}
			k.rest = append(k.rest, c)
		}
	}
	n := copy(p, k.rest)
	k.rest = k.rest[n:]
	return n, nil
}
