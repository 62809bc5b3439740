package client

import (
	"sync"
	"sync/atomic"

	"github.com/parley-mcp/parley/internal/dial/legacy"
	"github.com/parley-mcp/parley/internal/dial/modern"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/jsonrpc"
)

// eraSwitch delivers received messages to the era that waits for them, until one era is
// chosen. From then on the other one receives nothing. Otherwise it might answer a request
// of the server, which 2026-07-28 forbids (basic/transports/stdio, Sending Messages).
type eraSwitch struct {
	ready  sync.WaitGroup // until the eras have their wire
	modern *modern.Client
	legacy *legacy.Client
	chosen atomic.Pointer[outbound.Receiver]
}

func (s *eraSwitch) choose(era outbound.Receiver) { s.chosen.Store(&era) }

// Receive implements outbound.Receiver.
func (s *eraSwitch) Receive(m *jsonrpc.Message) {
	s.ready.Wait()
	if era := s.chosen.Load(); era != nil {
		(*era).Receive(m)
		return
	}
	if !s.modern.Requests.Receive(m) || m.Kind == jsonrpc.Notification {
		s.legacy.Receive(m)
	}
}

// ReceiveInvalid implements outbound.Receiver.
func (s *eraSwitch) ReceiveInvalid(m *jsonrpc.Message, err error) {
	if era := s.chosen.Load(); era != nil {
		(*era).ReceiveInvalid(m, err)
		return
	}
	if !s.modern.Requests.ReceiveInvalid(m, err) {
		s.legacy.ReceiveInvalid(m, err)
	}
}

// Lost implements outbound.Receiver. The error of the first call is that of both eras.
func (s *eraSwitch) Lost(err error) {
	s.modern.Lost(err)
	s.legacy.Lost(s.modern.Failed())
}
