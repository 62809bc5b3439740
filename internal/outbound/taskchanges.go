package outbound

import (
	"slices"
	"strings"
	"sync"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Limits of what is remembered until the wait for a task begins.
const (
	maxEarlyChanges = 64      // each for tasks that have changed and tasks with progress
	maxEarlyMessage = 1 << 10 // bytes of the message of progress
	maxEarlyTask    = 256     // bytes of a task id or a token
)

// TaskChanges wakes whoever waits for a task of the peer when the peer reports a change (notifications/tasks/status of
// 2025-11-25), and passes on the progress of these tasks. It is safe for concurrent use.
type TaskChanges struct {
	mu       sync.Mutex
	creating int // calls of Begin without End
	waiting  map[string][]chan struct{}
	early    []string // tasks that changed before anybody waited; newest last

	progress      map[jsonrpc.ID]func(Progress) // by the token of the request that created the task
	earlyProgress []earlyProgress               // the last progress of each token; newest last
}

// earlyProgress is progress that was reported before the wait for the task.
type earlyProgress struct {
	token  jsonrpc.ID
	report Progress
}

// Begin must be called before a request that may create a task, so that changes are remembered
// until the wait for the task begins. The caller must call End, unless s is no longer used.
func (s *TaskChanges) Begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.creating++
}

// End undoes one call of Begin.
func (s *TaskChanges) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.creating--; s.creating == 0 {
		s.early, s.earlyProgress = nil, nil
	}
}

// Watch returns a channel that receives a value after a change of a task, and a function that ends the watch.
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

// Receive processes notifications/tasks/status. It does not block.
func (s *TaskChanges) Receive(m *jsonrpc.Message) {
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
		default: // already awake
		}
	}
	if len(waiting) > 0 || s.creating == 0 || len(id) > maxEarlyTask {
		return
	}
	if i := slices.Index(s.early, id); i >= 0 {
		s.early = slices.Delete(s.early, i, i+1)
	} else if len(s.early) == maxEarlyChanges {
		s.early = slices.Delete(s.early, 0, 1)
	}
	s.early = append(s.early, strings.Clone(id))
}

// Follow passes the progress with a token to f, which must not block, until stop is called.
func (s *TaskChanges) Follow(token jsonrpc.ID, f func(Progress)) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.progress == nil {
		s.progress = make(map[jsonrpc.ID]func(Progress))
	}
	s.progress[token] = f
	if i := s.earlyOf(token); i >= 0 {
		f(s.earlyProgress[i].report)
		s.earlyProgress = slices.Delete(s.earlyProgress, i, i+1)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.progress, token)
	}
}

func (s *TaskChanges) earlyOf(token jsonrpc.ID) int {
	return slices.IndexFunc(s.earlyProgress, func(e earlyProgress) bool { return e.token == token })
}

// ReceiveProgress processes progress of a request whose response has already arrived. It does not block.
func (s *TaskChanges) ReceiveProgress(token jsonrpc.ID, report Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.progress[token]; f != nil {
		f(report)
		return
	}
	if s.creating == 0 || len(report.Message) > maxEarlyMessage || len(token.String()) > maxEarlyTask {
		return
	}
	if i := s.earlyOf(token); i >= 0 {
		s.earlyProgress = slices.Delete(s.earlyProgress, i, i+1)
	} else if len(s.earlyProgress) == maxEarlyChanges {
		s.earlyProgress = slices.Delete(s.earlyProgress, 0, 1)
	}
	s.earlyProgress = append(s.earlyProgress, earlyProgress{token, report})
}

// RunsAsTask reports whether a client with this declaration can run requests of a method as tasks.
func RunsAsTask(declared *mcp.TaskRequestsCapability, method string) bool {
	switch {
	case declared == nil:
		return false
	case method == mcp.MethodElicit:
		return declared.Elicitation != nil && declared.Elicitation.Create != nil
	case method == mcp.MethodCreateMessage:
		return declared.Sampling != nil && declared.Sampling.CreateMessage != nil
	}
	return false
}
