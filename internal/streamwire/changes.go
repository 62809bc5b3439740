package streamwire

import (
	"context"
	"time"

	"github.com/parley-mcp/parley/internal/legacy"
)

// tell has the session's client told of changes from now on, once, until it is about
// to go or to be left.
func (l *link) tell(ctx context.Context) {
	if l.tells || !l.session.Initialized() || !l.begin() {
		return
	}
	l.tells = true
	changes := l.session.Notifications() // at once: the client may count on it
	go l.deliver(ctx, changes)
}

func (l *link) deliver(ctx context.Context, changes *legacy.NotificationQueue) {
	defer l.running.Done()
	defer changes.Close()
	var tick <-chan time.Time
	if l.KeepAlive > 0 {
		ticker := time.NewTicker(l.KeepAlive)
		defer ticker.Stop()
		tick = ticker.C
	}
	pulse := l.session.NewPinger(l.KeepAlive)
	for {
		select {
		case <-changes.Wake():
			for _, notification := range changes.Take() {
				l.write(ctx, notification)
			}
		case <-tick:
			if err := l.beat(ctx, &pulse); err != nil {
				l.Logger.WarnContext(ctx, "a client does not answer any more", "error", err)
				l.broken(err)
				return
			}
		case <-l.closing.Done():
			return
		}
	}
}

// beat asks the client whether it is there. The error says that it is not.
func (l *link) beat(ctx context.Context, pulse *legacy.Pinger) error {
	if l.stuck.Load() { // what it says waits for us
		*pulse = l.session.NewPinger(l.KeepAlive)
		return nil
	}
	ping, err := pulse.Next(ctx)
	if ping != nil {
		// Whoever does not read is not waited for: it cannot answer either.
		ctx, cancel := context.WithTimeout(ctx, l.KeepAlive)
		defer cancel()
		l.write(ctx, ping)
	}
	return err
}
