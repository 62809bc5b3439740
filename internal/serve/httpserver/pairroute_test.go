package httpserver

import (
	"testing"
	"testing/synctest"

	"github.com/parley-mcp/parley/jsonrpc"
)

// A client that does not read its event stream cannot make the queue of the stream grow without limit.
func TestErrorsOfAnOverloadedPairAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := slowReader()
		x := &pair{stream: &eventStream{w: w, ctx: t.Context()}}
		var m jsonrpc.Message
		if err := m.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`), jsonrpc.Limits{}); err != nil {
			t.Fatal(err)
		}
		for i := range 20_000 {
			new(Server).overloadPair(x, &m)
			if i == 0 {
				synctest.Wait() // the first event is being written
			}
		}
		if n := len(x.stream.queue); n <= maxQueued || n > maxQueued+1000 {
			t.Errorf("%d bytes are queued", n)
		}
		close(w.slow)
		x.stream.end()
	})
}
