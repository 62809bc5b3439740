package client_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/transport"
)

// Rule S5: the client does not repeat a call that may have run. The next call reconnects.
func TestCallIsNotRepeatedAfterALostConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, rec := dial(t, withToolAnswers("!close"), withToolAnswers("!close"), modernServer())
		for range 2 {
			if _, err := c.CallTool(t.Context(), "a", nil); !errors.Is(err, client.ErrConnectionLost) || errors.Is(err, client.ErrClientClosed) {
				t.Errorf("got %v", err)
			}
		}
		if text, err := client.CallTool[string](t.Context(), c, "a", nil); err != nil || text != "called" {
			t.Errorf("next call: %q, %v", text, err)
		}
		c.Close()
		if received := rec.methods(); strings.Count(received, "tools/call") != 3 || strings.Count(received, probed) != 3 {
			t.Errorf("the servers received %s", received)
		}
	})
}

func TestListsAndPingsAreRepeatedOnce(t *testing.T) {
	for _, method := range []string{"tools/list", "server/discover"} {
		synctest.Test(t, func(t *testing.T) {
			use := func(c *client.Client) error {
				if method == "server/discover" {
					return c.Ping(t.Context())
				}
				for _, err := range c.Tools(t.Context()) {
					if err != nil {
						return err
					}
				}
				return nil
			}
			exiting := modernServer()
			if exiting.Answers[method] = []string{"!close"}; method == "server/discover" {
				exiting.Answers[method] = []string{discovered, "!close"}
			}
			c, _ := dial(t, exiting, modernServer())
			if err := use(c); err != nil {
				t.Errorf("%s: %v", method, err)
			}
			c, rec := dial(t, exiting, exiting, exiting)
			if err := use(c); !errors.Is(err, client.ErrConnectionLost) {
				t.Errorf("%s on a server that exits each time: %v", method, err)
			}
			c.Close()
			if n := strings.Count(rec.methods(), method); method == "tools/list" && n != 2 {
				t.Errorf("%s was sent %d times", method, n)
			}
		})
	}
}

// A request on a connection that ended while it was idle is sent on a new one.
func TestLostIdleConnectionIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conns []transport.Conn
		var serving sync.WaitGroup
		to := client.NewTarget(func() transport.Conn {
			near, far := transport.Pipe()
			conns = append(conns, far)
			serving.Go(func() { modernServer().serve(far) })
			return near
		})
		lost := make(chan error, 10)
		d := quiet()
		d.OnConnectionLost = func(err error) { lost <- err }
		c, err := d.Dial(t.Context(), to)
		if err != nil {
			t.Fatal(err)
		}
		conns[0].Close()
		if err := <-lost; !errors.Is(err, client.ErrConnectionLost) {
			t.Errorf("OnConnectionLost received %v", err)
		}
		if _, err := c.CallTool(t.Context(), "a", nil); err != nil {
			t.Error(err)
		}
		c.Close()
		for _, conn := range conns {
			conn.Close()
		}
		serving.Wait()
		if len(conns) != 2 || len(lost) > 0 {
			t.Errorf("got %d connections and %d more calls of OnConnectionLost, want 2 and 0", len(conns), len(lost))
		}
	})
}

// Each of several calls on a connection that ends has one outcome, and the client
// reconnects once for all.
func TestConcurrentCallsReconnectOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exiting := withToolAnswers("", "", "", "", "!close")
		c, rec := dial(t, exiting, modernServer())
		var wg sync.WaitGroup
		var lost atomic.Int32
		for range 20 {
			wg.Go(func() {
				if _, err := c.CallTool(t.Context(), "a", nil); errors.Is(err, client.ErrConnectionLost) {
					lost.Add(1)
				} else if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if _, err := c.CallTool(t.Context(), "a", nil); err != nil {
			t.Error(err)
		}
		c.Close()
		received := rec.methods()
		if strings.Count(received, probed) != 2 || lost.Load() < 5 {
			t.Errorf("%d calls were lost, the servers received %s", lost.Load(), received)
		}
	})
}

// A failed reconnect returns a DialError. The next call tries again.
func TestFailedReconnectIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := dial(t, withToolAnswers("!close"), &script{Otherwise: "!close"}, &script{}, modernServer())
		if _, err := c.CallTool(t.Context(), "a", nil); !errors.Is(err, client.ErrConnectionLost) {
			t.Errorf("got %v", err)
		}
		if _, err := c.CallTool(t.Context(), "a", nil); !errors.Is(err, client.ErrConnectionLost) || !strings.Contains(err.Error(), "dial") {
			t.Errorf("got %v", err)
		}
		if _, err := c.CallTool(t.Context(), "a", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if _, err := c.CallTool(t.Context(), "a", nil); err != nil {
			t.Error(err)
		}
	})
}
