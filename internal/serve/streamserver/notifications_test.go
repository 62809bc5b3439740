package streamserver_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
)

// A handler that ends its goroutine ends neither the reading nor the process.
func TestNotificationHandlerMayEndItsGoroutine(t *testing.T) {
	s := newServer(nil)
	told := make(chan struct{}, 1)
	s.Legacy.Engine = rpc.NewEngine(rpc.Handlers{
		mcp.NotificationRootsListChanged: func(context.Context, *rpc.Call) (any, error) {
			told <- struct{}{}
			runtime.Goexit()
			return nil, nil
		},
	}, s.Logger)
	p := connect(t, s)
	p.handshake(mcp.V20251125)
	p.send(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
	<-told
	p.alive()
}

// While the handler of a notification runs, the server does not read, so it must not count
// the client as silent. The handler ends at the time of a tick.
func TestClientIsNotLostWhileItsNotificationIsHandled(t *testing.T) {
	for name, notification := range map[string]string{
		"alone":      `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`,
		"in a batch": `[{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}]`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(nil)
				s.KeepAlive = 5 * time.Second
				s.Legacy.Engine = rpc.NewEngine(rpc.Handlers{
					mcp.NotificationRootsListChanged: func(context.Context, *rpc.Call) (any, error) {
						time.Sleep(time.Minute)
						return nil, nil
					},
				}, s.Logger)
				p := connect(t, s)
				p.handshake(mcp.V20250326)
				p.send(notification)
				time.Sleep(time.Minute - time.Second)
				p.send(`{"jsonrpc":"2.0","id":"alive","method":"ping"}`)
				p.want(`{"jsonrpc":"2.0","id":"alive","result":{}}`)
			})
		})
	}
}
