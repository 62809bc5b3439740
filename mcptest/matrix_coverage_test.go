package mcptest_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/internal/spec"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
)

// The matrix fails when a method that a schema defines was not seen on the wire: in each revision, on
// each transport, from each side that may send it. What goes over the wire is what counts, so that a
// new method, a new revision or a new transport has holes until somebody has used it.

// cell is a method from one side, on one transport in one revision.
type cell struct {
	revision   mcp.Revision
	transport  string
	method     string
	fromClient bool
}

func (c cell) String() string {
	from := "server"
	if c.fromClient {
		from = "client"
	}
	return fmt.Sprintf("%s/%s: %s from the %s", c.revision, c.transport, c.method, from)
}

// wire is what the taps of all tests have seen.
var wire struct {
	sync.Mutex
	seen map[cell]bool
	news chan struct{} // closed when a cell is seen for the first time; nil: nobody waits
}

func saw(c cell) {
	wire.Lock()
	defer wire.Unlock()
	if wire.seen == nil {
		wire.seen = make(map[cell]bool)
	}
	if !wire.seen[c] && wire.news != nil {
		close(wire.news)
		wire.news = nil
	}
	wire.seen[c] = true
}

// asked returns the methods of the input requests in a result of 2026-07-28.
func asked(result json.RawMessage) []string {
	var body struct {
		InputRequests map[string]struct{ Method string }
	}
	if json.Unmarshal(result, &body) != nil {
		return nil
	}
	var methods []string
	for _, request := range body.InputRequests {
		methods = append(methods, request.Method)
	}
	return methods
}

// unsent is what a side may send and ours does not, with the reason. What a row leaves empty it does
// not restrict.
var unsent = []struct {
	cell
	why string
}{
	{cell{method: "tasks/", fromClient: true}, "tasks come with the issue that brings them"},
	{cell{method: "tasks/"}, "tasks come with the issue that brings them"},
	{cell{method: "notifications/tasks/status", fromClient: true}, "tasks come with the issue that brings them"},
	{cell{method: "notifications/tasks/status"}, "tasks come with the issue that brings them"},
	{cell{method: mcp.NotificationProgress, fromClient: true}, "answers to asks have no progress to report"},
	{cell{mcp.V20260728, "http", mcp.NotificationCancelled, true}, "over HTTP a request is cancelled by closing its stream"},
}

func expected(c cell) bool {
	for _, u := range unsent {
		if u.fromClient == c.fromClient && (u.revision == "" || u.revision == c.revision) &&
			(u.transport == "" || u.transport == c.transport) &&
			(u.method == c.method || strings.HasSuffix(u.method, "/") && strings.HasPrefix(c.method, u.method)) {
			return false
		}
	}
	return true
}

// await waits until a method was seen in the matrix's subtest t.
func await(t *testing.T, method string, fromClient bool) {
	t.Helper()
	where := strings.Split(t.Name(), "/")
	c := cell{mcp.Revision(where[len(where)-2]), where[len(where)-1], method, fromClient}
	late := time.After(10 * time.Second)
	for {
		wire.Lock()
		seen := wire.seen[c]
		if wire.news == nil {
			wire.news = make(chan struct{})
		}
		news := wire.news
		wire.Unlock()
		if seen {
			return
		}
		select {
		case <-news:
		case <-late:
			t.Fatalf("%s was never seen", c)
		}
	}
}

// findHoles returns the cells that the schemas define and nobody has used, and those that
// somebody has used though they are excused.
func findHoles() (holes []cell) {
	wire.Lock()
	defer wire.Unlock()
	for _, r := range mcp.Revisions() {
		for _, transport := range mcptest.Transports() {
			for _, method := range spec.Methods(r) {
				for _, fromClient := range []bool{true, false} {
					c := cell{r, transport.Name, method.Name, fromClient}
					sends := fromClient && method.FromClient || !fromClient && method.FromServer
					if transport.Supports(r) && sends && expected(c) != wire.seen[c] {
						holes = append(holes, c)
					}
				}
			}
		}
	}
	slices.SortFunc(holes, func(a, b cell) int { return strings.Compare(a.String(), b.String()) })
	return holes
}

func TestMain(m *testing.M) {
	flag.Parse()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		selected := flag.Lookup("test.run").Value.String() != "" || flag.Lookup("test.skip").Value.String() != "" ||
			flag.Lookup("test.list").Value.String() != ""
		if code == 0 && !selected {
			for _, c := range findHoles() {
				what := "was never seen"
				if !expected(c) {
					what = "was seen, and is excused: take its excuse away"
				}
				fmt.Printf("the matrix has a hole: %s %s\n", c, what)
				code = 1
			}
		}
		os.Exit(code)
	}))
}

func TestTheMatrixHasAHoleForWhatNobodyUses(t *testing.T) {
	c := cell{mcp.V20241105, "memory", "tools/forge", true}
	if !expected(c) {
		t.Error("an unknown method is excused")
	}
	if c.method = "tasks/get"; expected(c) {
		t.Error("tasks are not excused")
	}
}
