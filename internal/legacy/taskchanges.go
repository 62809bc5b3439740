package legacy

import (
	"slices"
	"strings"
	"sync"

	"github.com/parley-mcp/parley/jsonrpc"
)

// maxEarlyChanges limits the tasks whose changes are remembered until a wait for them begins.
const maxEarlyChanges = 64

// TaskChanges wakes those who wait for tasks of the peer when it reports a change
// (notifications/tasks/status of 2025-11-25). It is safe for concurrent use.
type TaskChanges struct {
	mu       sync.Mutex
	creating int // calls of Begin without End
	waiting  map[string][]chan struct{}
	early    []string // tasks that have changed before their wait; the newest come last
}

// Begin is called before requests that may create tasks, so that changes are remembered until the
// wait for them begins. End must follow, unless s is no longer used.
func (s *TaskChanges) Begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.creating++
}

// End ends what Begin has begun.
func (s *TaskChanges) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.creating--; s.creating == 0 {
		s.early = nil
	}
}

// Watch returns a channel that receives after a change of a task, and a function that ends the watch.
func (s *TaskChanges) Watch(id string) (changed <-chan struct{}, stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == nil {
		s.waiting = make(map[string][]chan struct{})
	}
	c := make(chan struct{}, 1)
	if i := slices.Index(s.early, id); i >= 0 {
		s.early = slices.Delete(s.early, i, i+1)
		c <- struct{}{}
	}
	s.waiting[id] = append(s.waiting[id], c)
	return c, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		rest := slices.DeleteFunc(s.waiting[id], func(other chan struct{}) bool { return other == c })
		if s.waiting[id] = rest; len(rest) == 0 {
			delete(s.waiting, id)
		}
	}
}

// receive takes notifications/tasks/status. It does not block.
func (s *TaskChanges) receive(m *jsonrpc.Message) {
	raw, _ := m.Params.Get("taskId")
	if len(raw) == 0 || raw[0] != '"' {
		return
	}
	id := jsonrpc.Unquote(raw)
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting := s.waiting[id]
	for _, c := range waiting {
		select {
		case c <- struct{}{}:
		default: // it is awake already
		}
	}
	if len(waiting) > 0 || s.creating == 0 || len(id) > maxEarlyID {
		return
	}
	if i := slices.Index(s.early, id); i >= 0 {
		s.early = slices.Delete(s.early, i, i+1)
	} else if len(s.early) == maxEarlyChanges {
		s.early = slices.Delete(s.early, 0, 1)
	}
	s.early = append(s.early, strings.Clone(id))
}
