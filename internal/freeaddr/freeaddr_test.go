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
		if port := l.Addr().(*net.TCPAddr).Port; port < firstPort || port > lastPort {
			t.Errorf("port %d, want one that systems do not choose", port)
		}
	}
}
