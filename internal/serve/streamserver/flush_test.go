package streamserver_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parley-mcp/parley/transport"
)

// writeSizes records the sizes of writes.
type writeSizes struct {
	halves
	sizes []int
}

func (w *writeSizes) Write(b []byte) (int, error) {
	w.sizes = append(w.sizes, len(b))
	return w.halves.Write(b)
}

// A client that sends many requests at once can process the first responses while the server serves
// the other requests.
func TestResponsesToManyRequestsAreSentInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		theirIn, in := io.Pipe()
		out, theirOut := io.Pipe()
		recorded := &writeSizes{halves: halves{theirIn, theirOut}}
		near := transport.Stream(halves{out, in}, transport.StreamOptions{})
		far := transport.Stream(recorded, transport.StreamOptions{})
		p := serve(t, newServer(nil), near, far)
		for range 10 { // from now on, the reader serves the tool
			p.send(modernCall("1", "echo", "{}"))
			p.want(modernReply("1", "{}"))
		}
		synctest.Wait()
		recorded.sizes = nil
		const requests = 200
		var all strings.Builder
		for id := range requests {
			all.WriteString(modernCall(fmt.Sprint(id), "echo", "{}") + "\n")
		}
		go io.WriteString(in, all.String())
		for id := range requests {
			p.want(modernReply(fmt.Sprint(id), "{}"))
		}
		synctest.Wait()
		sum := 0
		for _, size := range recorded.sizes {
			sum += size
			if size > 5<<10 {
				t.Errorf("a write has %d bytes, want at most 5 KiB", size)
			}
		}
		if limit := sum/(4<<10) + 1; len(recorded.sizes) > limit {
			t.Errorf("%d writes for %d bytes, want at most %d", len(recorded.sizes), sum, limit)
		}
	})
}
