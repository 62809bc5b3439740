package outbound

// Pending returns the number of requests in flight.
func (o *Requests) Pending() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.pending)
}
