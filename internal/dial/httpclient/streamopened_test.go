package httpclient

import (
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/dial/legacy"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/mcp"
)

// slowObserver takes half a second to note that the standalone stream is open.
type slowObserver struct {
	*legacy.Client
	opened atomic.Int32
}

func (o *slowObserver) StreamOpened() {
	time.Sleep(time.Second / 2)
	o.opened.Add(1)
	o.Client.StreamOpened()
}

// Otherwise a watch that begins after the handshake receives the changes with Resync twice.
func TestHandshakeEndsAfterTheReceiverKnowsOfTheStandaloneStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
			if !handshake(w, r, body) {
				writeEvents(w, ":\n\n")
				<-r.Context().Done()
			}
		})
		o := p.options(t)
		era := legacy.NewClient(nil, o.Logger)
		observer := &slowObserver{Client: era}
		c := NewClient(o, false, observer)
		era.Wire = c
		defer era.Close()
		defer c.Close()
		if _, err := era.Handshake(t.Context(), mcp.V20251125, mcp.Implementation{Name: "c", Version: "1"}, mcp.ClientCapabilities{}, &outbound.Request{}); err != nil {
			t.Fatal(err)
		}
		if n := observer.opened.Load(); n != 1 {
			t.Errorf("StreamOpened was called %d times before the end of the handshake", n)
		}
	})
}
