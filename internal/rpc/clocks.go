package rpc

import "context"

type clocksKey struct{}

// WithClocks returns a context from which [StopClocks] stops clocks.
func WithClocks(ctx context.Context, stop func() (release func())) context.Context {
	return context.WithValue(ctx, clocksKey{}, stop)
}

// StopClocks stops the time-outs, but not the absolute maxima, of the requests in
// flight on the connection that ctx belongs to, until release is called: somebody is
// being asked for something without which no request goes on, such as a login. It is
// for what a transport asks for credentials; without a connection in ctx it does
// nothing.
func StopClocks(ctx context.Context) (release func()) {
	if stop, ok := ctx.Value(clocksKey{}).(func() (release func())); ok && stop != nil {
		return stop()
	}
	return func() {}
}
