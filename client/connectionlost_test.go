package client_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/parley-mcp/parley/call"
)

// The calls that fail close the connection, possibly before the goroutine that lost it
// reports that.
func TestOnConnectionLostReceivesTheReasonWhileCallsCloseTheConnection(t *testing.T) {
	for range 20 {
		for _, s := range []*script{modernServer(), legacyServer()} {
			synctest.Test(t, func(t *testing.T) {
				c, conn, lost := dialHalfOpen(t, s)
				var calls sync.WaitGroup
				for range 20 {
					calls.Go(func() { c.CallTool(t.Context(), "a", nil) })
				}
				synctest.Wait()
				conn.cut.Store(true)
				calls.Wait()
				synctest.Wait()
				var silent *call.SilentError
				if len(lost) != 1 {
					t.Fatalf("OnConnectionLost was called %d times, want 1", len(lost))
				} else if err := <-lost; !errors.As(err, &silent) {
					t.Errorf("OnConnectionLost received %v", err)
				}
			})
		}
	}
}

// A connection that ends right after its Dial is established.
func TestOnConnectionLostIsCalledIfTheServerExitsRightAfterTheDial(t *testing.T) {
	for range 50 {
		for _, server := range []*script{
			{Answers: answers("server/discover", discovered), Last: "server/discover"},
			{Answers: answers("initialize", initialized), Otherwise: methodNotFound, Last: "notifications/initialized"},
		} {
			synctest.Test(t, func(t *testing.T) {
				to, _ := target(server)
				d := quiet()
				lost := make(chan error, 2)
				d.OnConnectionLost = func(err error) { lost <- err }
				c, err := d.Dial(t.Context(), to)
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if len(lost) != 1 {
					t.Errorf("OnConnectionLost was called %d times, want 1", len(lost))
				}
				c.Close()
			})
		}
	}
}
