package ledger

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Journal is a file in which processes record the starts of handlers. Several processes may append to one file. What a
// process has recorded is there after its death. It is safe for concurrent use.
type Journal struct{ file *os.File }

// OpenJournal opens a journal, and creates its file if there is none. The caller must close it.
func OpenJournal(path string) (*Journal, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	return &Journal{file}, nil
}

// Started records that the handler of a call has started on behalf of an owner. Call it before anything else that the
// handler does.
func (j *Journal) Started(owner, nonce string) error {
	_, err := j.file.WriteString(strconv.Quote(owner) + "\t" + strconv.Quote(nonce) + "\n") // one write, so that lines stay whole
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

// Close closes the file.
func (j *Journal) Close() error { return j.file.Close() }

// ReadJournal records the starts in a journal. The processes that write it must have ended.
func (l *Ledger) ReadJournal(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	defer file.Close()
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF && line == "" {
			return nil
		}
		if err != nil {
			return fmt.Errorf("ledger: cannot read %s: %w", path, err)
		}
		owner, nonce, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if owner, err = strconv.Unquote(owner); err == nil {
			nonce, err = strconv.Unquote(nonce)
		}
		if err != nil {
			return fmt.Errorf("ledger: line %.100q of %s must be an owner and a nonce, quoted", line, path)
		}
		l.Started(owner, nonce)
	}
}
