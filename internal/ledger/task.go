package ledger

import (
	"crypto/sha256"
	"maps"
	"slices"
)

// taskState is what is known of a task.
type taskState struct {
	owner  string
	status string
	ended  bool
	result [sha256.Size]byte
}

// CreatedTask records that a task of an owner was created: its id must resolve on every replica from now on.
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

// ObservedTask records that an observer, such as a client of one replica, sees a task of an owner in a state. ended reports
// whether the state is terminal; result is then the task's result or error. The Ledger does not keep result.
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
