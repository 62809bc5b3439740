package ledger

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Journal is a file in which processes record the starts of handlers. Several processes may append to one file.
// Records outlive the process that wrote them. It is safe for concurrent use.
type Journal struct{ file *os.File }

// OpenJournal opens a journal, and creates the file if necessary. The caller must close it.
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
	// one write, so that lines stay whole
	_, err := j.file.WriteString(strconv.Quote(owner) + "\t" + strconv.Quote(nonce) + "\n")
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

// taskState is what is known about a task.
type taskState struct {
	owner  string
	status string
	ended  bool
	result [sha256.Size]byte
}

// CreatedTask records that a task of an owner was created: from now on, every replica must know its ID.
func (l *Ledger) CreatedTask(owner, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tasks == nil {
		l.tasks = make(map[string]*taskState)
	}
	if l.tasks[id] != nil {
		l.violate(Duplicated, "two tasks have the id %s", id)
	}
	l.tasks[id] = &taskState{owner: owner}
	l.totals.Tasks++
}

// ObservedTask records that an observer, such as a client of one replica, sees a task of an owner in a state. ended
// reports whether the state is terminal; result is then the task's result or error. The Ledger does not retain
// result.
func (l *Ledger) ObservedTask(owner, observer, id, status string, ended bool, result []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tasks[id]
	switch digest := sha256.Sum256(result); {
	case t == nil:
		l.violate(Crossed, "%s has the unknown task %s", observer, id)
	case t.owner != owner:
		l.violate(Crossed, "%s of %s has task %s of %s", observer, owner, id, t.owner)
	case t.ended && status != t.status:
		l.violate(Changed, "%s has task %s as %s after it was %s", observer, id, status, t.status)
	case t.ended && digest != t.result:
		l.violate(Changed, "%s has another result of task %s: %.200q", observer, id, result)
	default:
		t.status, t.ended = status, ended
		if ended {
			t.result = digest
		}
	}
}

// LostTask records that an observer cannot find a task.
func (l *Ledger) LostTask(observer, id string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.violate(Lost, "%s cannot find task %s: %v", observer, id, err)
}

// checkTasks reports the tasks that have not ended. l.mu must be held.
func (l *Ledger) checkTasks() {
	for _, id := range slices.Sorted(maps.Keys(l.tasks)) {
		if t := l.tasks[id]; !t.ended {
			l.violate(Lost, "task %s of %s has not ended; its last status is %q", id, t.owner, t.status)
		}
	}
}
