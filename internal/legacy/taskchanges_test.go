package legacy

import (
	"fmt"
	"testing"

	"github.com/parley-mcp/parley/jsonrpc"
)

// The changes of the tasks that have changed last are remembered until a wait begins, once each.
func TestNewestEarlyChangesAreRemembered(t *testing.T) {
	var s TaskChanges
	change := func(id string) {
		m, err := jsonrpc.Parse(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":%q}}`, id), jsonrpc.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		s.receive(&m)
	}
	changed := func(id string) bool {
		c, stop := s.Watch(id)
		defer stop()
		return len(c) > 0
	}
	change("before")
	s.Begin()
	change("oldest")
	change("twice")
	for i := range maxEarlyChanges - 2 {
		change(fmt.Sprint("other ", i))
	}
	change("twice") // is the newest now
	change("newer")
	change("newest")
	for id, want := range map[string]bool{"before": false, "oldest": false, "other 0": false, "other 1": true, "twice": true, "newest": true} {
		if got := changed(id); got != want {
			t.Errorf("task %q: changed is %v, want %v", id, got, want)
		}
	}
	if changed("newest") {
		t.Error("a change is reported to a second wait")
	}
}
