package streamwire

import (
	"context"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/legacy"
)

// tell has the session's client told of changes from now on, once, until it is about
// to go or to be left.
func (l *link) tell(ctx context.Context) {
	if l.tells || !l.session.Handshook() || !l.begin() {
		return
	}
	l.tells = true
	changes := l.session.Listen() // at once: the client may count on it
	go l.deliver(ctx, changes)
}

func (l *link) deliver(ctx context.Context, changes *call.Subscription) {
	defer l.running.Done()
	defer changes.Close()
	for {
		select {
		case <-changes.Wake():
			for _, change := range changes.Take() {
				l.write(ctx, legacy.AppendChange(nil, change))
			}
		case <-l.closing.Done():
			return
		}
	}
}
