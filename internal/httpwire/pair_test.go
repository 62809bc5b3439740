package httpwire

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// A client that knows the endpoint may begin its session and subscribe at once. So the
// server listens to changes before it tells of the endpoint.
func TestAPairListensBeforeItsClientCanSubscribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := sessionServer(t, store.NewMemory(store.MemoryOptions{}))
		client := newReader()
		told, listening := false, make(chan struct{})
		s.Legacy.Describe = func(principal.Principal) (r mcp.InitializeResult) { // is asked for when listening begins
			synctest.Wait()
			told = strings.Contains(client.text(), "event: endpoint")
			close(listening)
			return r
		}
		ctx, leave := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.openPair(client, httptest.NewRequestWithContext(ctx, http.MethodGet, "/mcp", nil))
		}()
		<-listening
		if told {
			t.Error("the endpoint was known before")
		}
		synctest.Wait()
		if !strings.Contains(client.text(), "event: endpoint") {
			t.Errorf("the client was told %q", client.text())
		}
		leave()
		<-done
	})
}
