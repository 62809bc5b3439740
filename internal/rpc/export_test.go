package rpc

// Known returns how many infos and capabilities are remembered.
func (p *PeerCache) Known() (infos, capabilities int) {
	p.infos.mu.Lock()
	defer p.infos.mu.Unlock()
	p.caps.mu.Lock()
	defer p.caps.mu.Unlock()
	return len(p.infos.known), len(p.caps.known)
}

// Pending returns how many requests are in flight.
func (o *Outbound) Pending() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.pending)
}
