package gateway_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// A server whose tools change 1,000 times per second is listed every 250 ms at most. The client of the gateway
// receives two notifications for each list: at the first change, and for the others 50 ms later.
func TestFrequentChangesOfAServerAreCoalesced(t *testing.T) {
	for _, r := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
		t.Run(string(r), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { coalesced(t, r) })
		})
	}
}

func coalesced(t *testing.T, r mcp.Revision) {
	ctx, cancel := context.WithCancel(t.Context())
	serve := func(s *server.Server) transport.Conn {
		near, far := transport.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = s.ServeConn(context.Background(), far)
		}()
		t.Cleanup(func() {
			far.Close()
			<-done
		})
		return near
	}
	up := answering("up")
	up.Logger = quiet
	var requests, notifications atomic.Int32
	h := &host.Host{
		Servers: []host.ServerConfig{{Name: "up", Target: client.Conn(serve(up))}}, Logger: quiet, Dialer: client.Dialer{Revision: r},
		Trace: func(_ string, sent bool, message []byte) {
			if sent && strings.Contains(string(message), `"tools/list"`) {
				requests.Add(1)
			}
		},
	}
	s := &server.Server{Name: "gateway", Version: "1", Logger: quiet}
	g, err := gateway.New(h, s)
	if err != nil {
		t.Fatal(err)
	}
	g.Logger = quiet
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	ran := make(chan struct{})
	go func() {
		defer close(ran)
		g.Run(ctx)
	}()
	dialer := client.Dialer{Revision: r, Logger: quiet, Trace: func(sent bool, message []byte) {
		if !sent && strings.Contains(string(message), `"notifications/tools/list_changed"`) {
			notifications.Add(1)
		}
	}}
	c, err := dialer.Dial(ctx, client.Conn(serve(s)))
	if err != nil {
		t.Fatal(err)
	}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for range c.Watch(ctx, client.WatchFilter{Tools: true}) {
		}
	}()
	time.Sleep(10 * time.Second)
	requests.Store(0)
	notifications.Store(0)
	for i := range 2000 {
		server.AddTool(up, mcp.Tool{Name: fmt.Sprint("tool", i)}, func(context.Context, none) (string, error) { return "", nil })
		time.Sleep(time.Millisecond)
	}
	time.Sleep(10 * time.Second)
	if n := len(h.Tools()); n != 2001 {
		t.Errorf("the host has %d tools", n)
	}
	n := 0
	for _, err := range c.Tools(ctx, client.WithRefresh()) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 2001 {
		t.Errorf("the gateway lists %d tools", n)
	}
	// A list of more than 1,000 tools needs one request for each page.
	if sent, limit := requests.Load(), int32(3*10); sent == 0 || sent > limit {
		t.Errorf("%d requests for 2,000 changes in two seconds, want at most %d", sent, limit)
	}
	if received := notifications.Load(); received == 0 || received > 2*10 {
		t.Errorf("%d notifications for 2,000 changes in two seconds, want at most 20", received)
	}
	t.Logf("%s: 2,000 changes: %d requests, %d notifications", r, requests.Load(), notifications.Load())
	cancel()
	<-watched
	<-ran
	c.Close()
	h.Close()
}
