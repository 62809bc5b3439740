package mcptest_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// failing records the failure of a test.
type failing struct {
	testing.TB
	text string
}

func (f *failing) Fatalf(format string, args ...any) {
	f.text = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestFailureSaysWhatIsWrongWithTheServer(t *testing.T) {
	for _, transport := range mcptest.Transports() {
		f := &failing{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			transport.Dial(f, &server.Server{Keys: [][]byte{{1}}})
		}()
		<-done
		must.CheckContains(t, f.text, "key 0 has 1 bytes", transport.Name, "the test fails")
	}
}

// A package may have one server for all of its tests.
func TestOneServerServesSeveralTests(t *testing.T) {
	s := newServer()
	for _, transport := range mcptest.Transports() {
		for _, r := range mcp.Revisions() {
			if !transport.Supports(r) {
				continue
			}
			for range 2 {
				t.Run(transport.Name, func(t *testing.T) {
					c := transport.Dial(t, s, mcptest.WithRevision(r))
					must.Check(t, must.Err(c.CallTool(t.Context(), "echo", map[string]string{"text": "a"})))
				})
			}
		}
	}
}
