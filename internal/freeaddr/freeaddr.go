// Package freeaddr finds addresses for servers that must know their port before they start. Only tests import it.
package freeaddr

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// The ports are below the range from which systems choose ports, for instance for outgoing connections.
const (
	firstPort = 10_000
	lastPort  = 32_767
)

const maxAttempts = 100

// New returns an address of the loopback interface that no socket uses. The port is random. The address stays free
// until the caller's server listens, even when the server restarts, unless another program picks the same port.
func New() (addr string, err error) {
	for range maxAttempts {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", fmt.Errorf("freeaddr: no port is free in %d attempts: %w", maxAttempts, err)
}
