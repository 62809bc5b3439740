package rpc

// Cached returns the numbers of cached infos and capabilities.
func (p *PeerCache) Cached() (infos, capabilities int) {
	p.infos.mu.Lock()
	defer p.infos.mu.Unlock()
	p.capabilities.mu.Lock()
	defer p.capabilities.mu.Unlock()
	return len(p.infos.values), len(p.capabilities.values)
}
