package rpc

import "context"

type clocksKey struct{}

// WithTimeoutPause returns a context from which [PauseTimeouts] stops clocks.
func WithTimeoutPause(ctx context.Context, stop func() (release func())) context.Context {
	return context.WithValue(ctx, clocksKey{}, stop)
}

// PauseTimeouts stops the time-outs, but not the absolute maxima, of the requests in
// flight on the connection that ctx belongs to, until release is called: somebody is
// being asked for something without which no request goes on, such as a login. It is
// for what a transport asks for credentials; without a connection in ctx it does
// nothing.
func PauseTimeouts(ctx context.Context) (release func()) {
	if stop, ok := ctx.Value(clocksKey{}).(func() (release func())); ok && stop != nil {
		return stop()
	}
	return func() {}
}
