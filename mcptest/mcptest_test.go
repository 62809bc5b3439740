package mcptest_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

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
		if !strings.Contains(f.text, "key 0 has 1 bytes") {
			t.Errorf("%s: the test fails with %q", transport.Name, f.text)
		}
	}
}
