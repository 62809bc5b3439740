package streamwire

import (
	"context"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/legacy"
)

// tell has the session's client told of changes from now on, once: until done, when
// nothing more is read from it, because it is about to go or to be left.
func (l *link) tell(ctx context.Context, done <-chan struct{}) {
	if l.tells || !l.session.Handshook() {
		return
	}
	l.tells = true
	changes := l.session.Listen() // at once: the client may count on it
	l.running.Go(func() { l.deliver(ctx, changes, done) })
}

func (l *link) deliver(ctx context.Context, changes *call.Subscription, done <-chan struct{}) {
	defer changes.Close()
	for {
		select {
		case <-changes.Wake():
			for _, change := range changes.Take() {
				l.write(ctx, legacy.AppendChange(nil, change))
			}
		case <-done:
			return
		}
	}
}
