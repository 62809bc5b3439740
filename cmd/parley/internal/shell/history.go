package shell

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/internal/atomicfile"
)

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
	if trimmed == "" || len(line) > maxLine || strings.ContainsAny(trimmed, "\r\n") || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return
	}
	h.keep(line)
	if strings.HasPrefix(line, " ") || h.secret(line) {
		return
	}
	_ = h.write(line)
}

// write appends a line to the file. It shortens a file with twice as many lines as the history.
func (h *History) write(line string) error {
	if h.inFile++; h.inFile > 2*maxHistory {
		var kept []string
		for _, l := range h.lines {
			if !strings.HasPrefix(l, " ") && !h.secret(l) {
				kept = append(kept, l+"\n")
			}
		}
		h.inFile = len(kept)
		return atomicfile.Write(h.path, []byte(strings.Join(kept, "")))
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
