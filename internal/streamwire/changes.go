package streamwire

import (
	"context"

	"github.com/parley-mcp/parley/internal/legacy"
)

// deliver tells the session's client of changes until done, when nothing more is read
// from it: it is about to go, or to be left.
func (l *link) deliver(ctx context.Context, done <-chan struct{}) {
	changes := l.session.Listen()
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
