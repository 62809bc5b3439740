package freeaddr

import (
	"net"
	"testing"
)

func TestServersCanListenOnNewAddresses(t *testing.T) {
	for range 100 {
		addr, err := New()
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if port := l.Addr().(*net.TCPAddr).Port; port < firstPort || port > lastPort {
			t.Errorf("port %d, want one that systems do not choose", port)
		}
	}
}
