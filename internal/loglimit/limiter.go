// Package loglimit limits the rate of log lines about the messages of a peer, because a peer
// can send messages at the rate of the network.
package loglimit

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Limits of a Limiter. Only the first lines of each period are written.
const (
	Period = time.Minute
	Lines  = 30 // per period
)

// Limiter limits the rate of log lines. The zero Limiter is ready for use. It is safe for
// concurrent use.
type Limiter struct {
	mu      sync.Mutex
	began   time.Time // start of the period
	lines   int       // lines in the period
	omitted int       // lines omitted since the last one that was written
}

// Log writes a line unless Lines lines were written in this period. The attribute not_logged
// is the number of lines omitted before it.
func (l *Limiter) Log(ctx context.Context, logger *slog.Logger, level slog.Level, message string, attrs ...slog.Attr) {
	if !logger.Enabled(ctx, level) {
		return
	}
	l.mu.Lock()
	if now := time.Now(); now.Sub(l.began) >= Period {
		l.began, l.lines = now, 0
	}
	if l.lines >= Lines {
		l.omitted++
		l.mu.Unlock()
		return
	}
	l.lines++
	omitted := l.omitted
	l.omitted = 0
	l.mu.Unlock()
	if omitted > 0 {
		attrs = append(attrs, slog.Int("not_logged", omitted))
	}
	logger.LogAttrs(ctx, level, message, attrs...)
}

// Flush writes a warning with the number of omitted lines, if there are any. Call it when no
// more lines follow.
func (l *Limiter) Flush(ctx context.Context, logger *slog.Logger) {
	l.mu.Lock()
	omitted := l.omitted
	l.omitted = 0
	l.mu.Unlock()
	if omitted > 0 {
		logger.LogAttrs(ctx, slog.LevelWarn, "more messages of the peer were ignored", slog.Int("not_logged", omitted))
	}
}
