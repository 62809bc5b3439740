// Package shell has the parts of an interactive shell: command lines, their history, and an editor for them at a
// terminal.
package shell

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"golang.org/x/term"

	"github.com/parley-mcp/parley/internal/atomicfile"
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

// ReadLine shows a prompt and returns a line. It returns ErrInterrupted after Ctrl-C, and io.EOF after Ctrl-D in an
// empty line, or when the terminal is closed.
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

// keys reads from a terminal. It replaces Ctrl-C, which the terminal of package term takes for the end of the input, by
// the keys that clear the line and end it.
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

// errQuote is the error of a line with an open quotation.
var errQuote = errors.New("the closing quotation mark is missing")

// Split splits a line into words as a POSIX shell does: white space separates words, quotation marks and backslashes
// quote. Nothing is expanded. A word that begins with # begins a comment.
func Split(line string) (words []string, err error) {
	words, _, quote := split(line, Syntax{})
	if quote != 0 {
		err = errQuote
	}
	return words, err
}

// Cursor splits the part of a line before the cursor into the words before the current one, and the current one. An
// open quotation is part of the current word. start is the index in the line at which the current word begins.
func Cursor(line string) (before []string, current string, start int) {
	before, current, start, _ = Syntax{}.Cursor(line)
	return before, current, start
}

// Syntax is how a shell reads a line.
type Syntax struct {
	Getenv func(string) string // returns the values of variables and ~/; nil if they are not replaced
	Fish   bool                // backslashes also quote within ' marks
}

// Cursor is like the function Cursor, for the line of another shell. Nothing but variables is expanded. quote is the
// mark of an open quotation, or 0.
func (s Syntax) Cursor(line string) (before []string, current string, start int, quote byte) {
	words, start, quote := split(line, s)
	if start == len(line) {
		return words, "", start, quote
	}
	return words[:len(words)-1], words[len(words)-1], start, quote
}

// variable matches a variable at the beginning of a text.
var variable = regexp.MustCompile(`^\$(?:(\w+)|\{(\w+)\})`)

// split returns the words of a line, the index at which the last word begins, which is that of the end if the line ends
// after it, and the mark of an open quotation.
func split(line string, s Syntax) (words []string, start int, quote byte) {
	var word strings.Builder
	inWord := false
	start = len(line)
	for i := 0; i < len(line); i++ {
		c := line[i]
		isSpace := c == ' ' || c == '\t' || c == '\n' || c == '\r'
		if !inWord && !isSpace {
			if c == '#' {
				return words, len(line), 0
			}
			inWord, start = true, i
			if s.Getenv != nil && strings.HasPrefix(line[i:], "~/") {
				word.WriteString(s.Getenv("HOME"))
				continue
			}
		}
		switch {
		case quote == 0 && isSpace:
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord, start = false, len(line)
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case quote != 0 && c == quote:
			quote = 0
		case c == '\\' && i+1 < len(line) && s.quotes(line[i+1], quote):
			i++
			word.WriteByte(line[i])
		case c == '$' && quote != '\'' && s.Getenv != nil && variable.MatchString(line[i:]):
			name := variable.FindStringSubmatch(line[i:])
			word.WriteString(s.Getenv(name[1] + name[2]))
			i += len(name[0]) - 1
		default:
			word.WriteByte(c)
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, start, quote
}

// quotes reports whether a backslash quotes a character within quotation marks, or without if quote is 0.
func (s Syntax) quotes(c, quote byte) bool {
	switch quote {
	case '"':
		return strings.IndexByte(`"\$`+"`", c) >= 0
	case '\'':
		return s.Fish && (c == '\'' || c == '\\')
	}
	return true
}

const (
	maxHistory = 1000     // lines
	maxLine    = 4 << 10  // bytes of a line that is kept
	maxFile    = 16 << 20 // bytes
)

// History is the history of command lines, in a file that only the user can read. It keeps the last 1,000 lines. It is
// not safe for concurrent use.
type History struct {
	path   string
	secret func(line string) bool
	lines  []string // the oldest first
	inFile int      // lines of the file
}

// OpenHistory reads the history in a file, which need not exist. Lines that are secret, or begin with a space, are kept
// in memory only.
func OpenHistory(path string, secret func(line string) bool) (*History, error) {
	h := &History{path: path, secret: secret}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return h, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || info.Size() > maxFile {
		return h, errors.Join(err, os.Remove(path)) // no history that parley has written has this size
	}
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 2*maxLine)
	for scanner.Scan() {
		h.inFile++
		h.keep(scanner.Text())
	}
	return h, nil // a line that is too long ends the history
}

func (h *History) keep(line string) {
	h.lines = append(h.lines, line)
	if n := len(h.lines) - maxHistory; n > 0 {
		h.lines = slices.Delete(h.lines, 0, n)
	}
}

// Add implements term.History. It appends the line to the file; the user sees no error of that.
func (h *History) Add(line string) {
	trimmed := strings.TrimSpace(line)
	if trimmed == "" || len(line) > maxLine || strings.ContainsAny(trimmed, "\r\n") || len(h.lines) > 0 &&
		h.lines[len(h.lines)-1] == line {
		return
	}
	h.keep(line)
	if strings.HasPrefix(line, " ") || h.secret(line) {
		return
	}
	_ = h.write(line)
}

// write appends a line to the file. It shortens a file with twice as many lines as the history; other shells can have
// appended lines, too.
func (h *History) write(line string) error {
	if h.inFile++; h.inFile > 2*maxHistory {
		return atomicfile.Update(context.Background(), h.path, maxFile, func(old []byte) ([]byte, error) {
			lines := slices.Collect(strings.Lines(string(old)))
			lines = append(lines[max(0, len(lines)-maxHistory+1):], line+"\n")
			h.inFile = len(lines)
			return []byte(strings.Join(lines, "")), nil
		})
	}
	if err := os.MkdirAll(filepath.Dir(h.path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(h.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(line + "\n")
	return errors.Join(err, file.Close())
}

// Len implements term.History.
func (h *History) Len() int { return len(h.lines) }

// At implements term.History.
func (h *History) At(i int) string { return h.lines[len(h.lines)-1-i] }
