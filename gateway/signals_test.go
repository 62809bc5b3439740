package gateway_test

import "sync"

// Signals from the handlers of a server to the test of its clients, by nonce.
var signals struct {
	mu    sync.Mutex
	named map[string]chan struct{}
}

func signal(name string) chan struct{} {
	signals.mu.Lock()
	defer signals.mu.Unlock()
	if signals.named == nil {
		signals.named = make(map[string]chan struct{})
	}
	if signals.named[name] == nil {
		signals.named[name] = make(chan struct{}, 1)
	}
	return signals.named[name]
}

func begun(nonce string) chan struct{}   { return signal("begun " + nonce) }
func cancels(nonce string) chan struct{} { return signal("cancelled " + nonce) }
