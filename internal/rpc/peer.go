package rpc

import (
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/mcp"
)

// PeerCache decodes what clients say of themselves. In the stateless era they say it
// with every request, in the same bytes each time, so PeerCache remembers what it has
// decoded. The zero PeerCache is ready for use, and safe for concurrent use.
type PeerCache struct {
	infos memo[mcp.Implementation]
	caps  memo[mcp.ClientCapabilities]
}

// Decode decodes a client's info, which may be nil, and capabilities.
func (p *PeerCache) Decode(info, capabilities []byte) (call.Peer, error) {
	if info == nil {
		info = []byte("{}")
	}
	i, err := p.infos.decode(info)
	if err != nil {
		return call.Peer{}, err
	}
	c, err := p.caps.decode(capabilities)
	return call.Peer{Info: i, Capabilities: c}, err
}

// memo remembers values by the JSON they were decoded from.
type memo[T any] struct {
	mu    sync.RWMutex
	known map[string]*T
}

// A memo holds at most memoEntries values of at most memoBytes each: half a
// megabyte in the worst case. It begins anew when it is full, which costs an
// attacker's neighbours one decode each.
const (
	memoEntries = 128
	memoBytes   = 4 << 10
)

func (m *memo[T]) decode(raw []byte) (*T, error) {
	m.mu.RLock()
	v := m.known[string(raw)]
	m.mu.RUnlock()
	if v != nil {
		return v, nil
	}
	v = new(T)
	if err := json.Unmarshal(raw, v); err != nil {
		return nil, err
	}
	if len(raw) > memoBytes {
		return v, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || len(m.known) >= memoEntries {
		m.known = make(map[string]*T, 8)
	}
	m.known[string(raw)] = v
	return v, nil
}
