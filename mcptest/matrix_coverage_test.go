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

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/spec"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
)

// The matrix fails if a method of a schema was not sent: in each revision, on each transport, by each side
// that may send it. So a new method, revision or transport needs a test.

// cell is a method that one side sends, on one transport in one revision.
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

// wire contains the cells that the taps of all tests have recorded.
var wire struct {
	sync.Mutex
	seen    map[cell]bool
	changed chan struct{} // closed when a cell is recorded for the first time; nil if no test waits
}

func recordCell(c cell) {
	wire.Lock()
	defer wire.Unlock()
	if wire.seen == nil {
		wire.seen = make(map[cell]bool)
	}
	if !wire.seen[c] && wire.changed != nil {
		close(wire.changed)
		wire.changed = nil
	}
	wire.seen[c] = true
}

// inputMethods returns the methods of the input requests in a result of 2026-07-28.
func inputMethods(result json.RawMessage) []string {
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

// unsent lists the methods that a side may send and this implementation does not, with the reason. An empty
// field of a row matches every value.
var unsent = []struct {
	cell
	why string
}{
	{cell{method: mcp.MethodListTasks, fromClient: true},
		"the server does not declare tasks.list, and the client stores ids"},
	{cell{method: mcp.MethodListTasks}, "the server knows the tasks that it has asked for"},
	{cell{method: mcp.NotificationProgress, fromClient: true}, "input handlers do not report progress"},
	{cell{mcp.V20260728, "http", mcp.NotificationCancelled, true},
		"over HTTP a client cancels a request by closing its stream"},
}

func expected(c cell) bool {
	for _, u := range unsent {
		if u.fromClient == c.fromClient && (u.revision == "" || u.revision == c.revision) &&
			(u.transport == "" || u.transport == c.transport) && u.method == c.method {
			return false
		}
	}
	return true
}

// await waits until a method is recorded in the subtest t of the matrix.
func await(t *testing.T, method string, fromClient bool) {
	t.Helper()
	where := strings.Split(t.Name(), "/")
	c := cell{mcp.Revision(where[len(where)-2]), where[len(where)-1], method, fromClient}
	late := time.After(10 * time.Second)
	for {
		wire.Lock()
		seen := wire.seen[c]
		if wire.changed == nil {
			wire.changed = make(chan struct{})
		}
		changed := wire.changed
		wire.Unlock()
		if seen {
			return
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("%s was not sent", c)
		}
	}
}

// findGaps returns the cells of the schemas that were not recorded, and those that were recorded although
// they are in unsent.
func findGaps() (gaps []cell) {
	wire.Lock()
	defer wire.Unlock()
	for _, r := range mcp.Revisions() {
		for _, transport := range mcptest.Transports() {
			for _, method := range spec.Methods(r) {
				for _, fromClient := range []bool{true, false} {
					c := cell{r, transport.Name, method.Name, fromClient}
					sends := fromClient && method.FromClient || !fromClient && method.FromServer
					if transport.Supports(r) && sends && expected(c) != wire.seen[c] {
						gaps = append(gaps, c)
					}
				}
			}
		}
	}
	slices.SortFunc(gaps, func(a, b cell) int { return strings.Compare(a.String(), b.String()) })
	return gaps
}

func TestMain(m *testing.M) {
	flag.Parse()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		selected := flag.Lookup("test.run").Value.String() != "" || flag.Lookup("test.skip").Value.String() != "" ||
			flag.Lookup("test.list").Value.String() != ""
		if code == 0 && !selected {
			for _, c := range findGaps() {
				problem := "was not sent"
				if !expected(c) {
					problem = "was sent: remove it from unsent"
				}
				fmt.Printf("gap in the matrix: %s %s\n", c, problem)
				code = 1
			}
		}
		os.Exit(code)
	}))
}

func TestMatrixExpectsMethodsThatAreNotInUnsent(t *testing.T) {
	c := cell{mcp.V20241105, "memory", "tools/forge", true}
	must.CheckThat(t, expected(c), "an unknown method is not expected")
	if c.method, c.fromClient = mcp.MethodListTasks, false; expected(c) {
		t.Error("a method that the server does not send is expected")
	}
}
