package outbound

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
)

// The most recently changed tasks are remembered until a wait begins, each once.
func TestNewestEarlyChangesAreRemembered(t *testing.T) {
	var s TaskChanges
	change := func(id string) {
		m, err := jsonrpc.Parse(fmt.Appendf(nil,
			`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":%q}}`, id), jsonrpc.Limits{})
		must.Do(t, err)
		s.Receive(&m)
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
	change("twice") // is now the newest
	change("newer")
	change("newest")
	for id, want := range map[string]bool{"before": false, "oldest": false, "other 0": false, "other 1": true,
		"twice": true, "newest": true} {
		must.CheckEqual(t, changed(id), want, id)
	}
	must.CheckThat(t, !changed("newest"), "a change is reported to a second wait")
}

// The last progress of each token is remembered until a wait begins, within limits.
func TestNewestEarlyProgressIsRemembered(t *testing.T) {
	var s TaskChanges
	report := func(token int64, done float64, message string) {
		s.ReceiveProgress(jsonrpc.IntID(token), Progress{Done: done, Message: message})
	}
	report(0, 1, "before Begin")
	s.Begin()
	for token := range int64(maxEarlyChanges) {
		report(1+token, 1, "")
	}
	report(2, 2, "")
	report(100, 1, "")
	report(101, 1, strings.Repeat("x", maxEarlyMessage+1))
	s.ReceiveProgress(jsonrpc.StringID(strings.Repeat("x", maxEarlyTask)), Progress{})
	for token, want := range map[int64]float64{0: 0, 1: 0, 2: 2, 3: 1, 100: 1, 101: 0} {
		var got float64
		stop := s.Follow(jsonrpc.IntID(token), func(p Progress) { got += p.Done })
		if stop(); got != want {
			t.Errorf("token %d: %v, want %v", token, got, want)
		}
	}
}
