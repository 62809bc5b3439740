//go:build integration

package redisstore

import (
	"testing"

	"github.com/parley-mcp/parley/internal/streamtest"
)

// Three replicas, each with its own connections, serve one stream that is cut 50 times.
func TestEachEventOfAStreamThatIsCutFiftyTimesArrivesOnce(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		s := start(t, program)
		streamtest.Cut(t, func() streamtest.Store { return connect(t, Options{Addrs: []string{s.addr}}) })
	})
}

// The standalone stream of a session is cut 50 times, and moves between three replicas.
func TestEachEventOfAStandaloneStreamThatIsCutFiftyTimesArrivesOnce(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		s := start(t, program)
		streamtest.CutStandalone(t, func() streamtest.Store { return connect(t, Options{Addrs: []string{s.addr}}) })
	})
}
