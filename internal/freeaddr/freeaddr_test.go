package freeaddr

import (
	"net"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

func TestServersCanListenOnNewAddresses(t *testing.T) {
	for range 100 {
		addr := must.Get(New())(t)
		l := must.Get(net.Listen("tcp", addr))(t)
		defer l.Close()
		port := l.Addr().(*net.TCPAddr).Port
		must.CheckThat(t, port >= firstPort && port <= lastPort, "port %d, want one that systems do not choose", port)
	}
}
