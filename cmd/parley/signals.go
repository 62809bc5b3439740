package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// signals handles the signals that end the program.
type signals struct {
	mu        sync.Mutex
	interrupt func() // handles SIGINT instead; nil for the normal end
}

type signalsKey struct{}

// notifyContext returns a context that ends at SIGINT and SIGTERM. The next signal exits immediately, without a graceful
// shutdown.
func notifyContext() context.Context {
	s := &signals{}
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), signalsKey{}, s))
	received := make(chan os.Signal, 1)
	signal.Notify(received, os.Interrupt, syscall.SIGTERM)
	go func() {
		for caught := range received {
			if caught == os.Interrupt && s.handle() {
				continue
			}
			if ctx.Err() != nil {
				os.Exit(exitInterrupted)
			}
			cancel()
		}
	}()
	return ctx
}

// handle calls the function that handles SIGINT, and reports whether there is one.
func (s *signals) handle() bool {
	s.mu.Lock()
	interrupt := s.interrupt
	s.mu.Unlock()
	if interrupt == nil {
		return false
	}
	interrupt()
	return true
}

// onInterrupt lets a function handle SIGINT until the returned function is called.
func onInterrupt(ctx context.Context, interrupt func()) (restore func()) {
	s, ok := ctx.Value(signalsKey{}).(*signals)
	if !ok {
		return func() {}
	}
	set := func(f func()) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.interrupt = f
	}
	set(interrupt)
	return func() { set(nil) }
}
