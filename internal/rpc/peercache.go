package rpc

import (
	"sync"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// PeerCache decodes what clients declare about themselves. In 2026-07-28 they repeat it in every request, usually in
// the same bytes, so PeerCache caches the decoded values. The zero PeerCache is empty. It is safe for concurrent use.
type PeerCache struct {
	infos        decodeCache[mcp.Implementation]
	capabilities decodeCache[mcp.ClientCapabilities]
}

// Decode decodes a client's info, which may be nil, and its capabilities.
func (p *PeerCache) Decode(info, capabilities []byte) (call.Peer, error) {
	if info == nil {
		info = []byte("{}")
	}
	i, err := p.infos.decode(info)
	if err != nil {
		return call.Peer{}, err
	}
	c, err := p.capabilities.decode(capabilities)
	return call.Peer{Info: i, Capabilities: c}, err
}

// Limits of a decodeCache: together half a megabyte. A full cache is cleared, so that a client
// that fills it costs the others one decoding each.
const (
	maxCached      = 128
	maxCachedBytes = 4 << 10 // of one value, encoded
)

// decodeCache caches values by the JSON from which they are decoded.
type decodeCache[T any] struct {
	mu     sync.RWMutex
	values map[string]*T
}

func (c *decodeCache[T]) decode(raw []byte) (*T, error) {
	c.mu.RLock()
	v := c.values[string(raw)]
	c.mu.RUnlock()
	if v != nil {
		return v, nil
	}
	v = new(T)
	if err := schema.Decode(raw, v); err != nil {
		return nil, err
	}
	if len(raw) > maxCachedBytes {
		return v, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.values == nil || len(c.values) >= maxCached {
		c.values = make(map[string]*T, 8)
	}
	c.values[string(raw)] = v
	return v, nil
}
