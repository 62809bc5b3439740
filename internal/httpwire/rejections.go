package httpwire

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Anybody can have requests refused as fast as the network goes. The log tells of the
// first of them in each period, and later how many there were.
const (
	rejectionPeriod = time.Minute
	rejectionLines  = 30 // in a period
)

// refusals bounds what is logged of refused requests. The zero refusals is ready for
// use, and safe for concurrent use.
type rejectionLog struct {
	mu     sync.Mutex
	began  time.Time // the period
	lines  int       // of the period
	silent int       // that were not logged, since the last line
}

// log writes a line, unless there have been too many.
func (f *rejectionLog) log(ctx context.Context, logger *slog.Logger, level slog.Level, message string, attrs ...slog.Attr) {
	if !logger.Enabled(ctx, level) {
		return
	}
	f.mu.Lock()
	if now := time.Now(); now.Sub(f.began) >= rejectionPeriod {
		f.began, f.lines = now, 0
	}
	if f.lines >= rejectionLines {
		f.silent++
		f.mu.Unlock()
		return
	}
	f.lines++
	silent := f.silent
	f.silent = 0
	f.mu.Unlock()
	if silent > 0 {
		attrs = append(attrs, slog.Int("not_logged", silent))
	}
	logger.LogAttrs(ctx, level, message, attrs...)
}
