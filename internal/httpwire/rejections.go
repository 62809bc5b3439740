package httpwire

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Limits of the log lines for rejected requests, since any client can cause rejections at
// the rate of the network. Only the first rejections of each period are logged.
const (
	rejectionPeriod = time.Minute
	rejectionLines  = 30 // per period
)

// rejectionLog limits the rate of log lines for rejected requests. The zero rejectionLog
// is ready for use. It is safe for concurrent use.
type rejectionLog struct {
	mu     sync.Mutex
	began  time.Time // start of the period
	lines  int       // lines in the period
	silent int       // rejections since the last line that were not logged
}

// log writes a line unless the period has rejectionLines lines. The line has the number
// of rejections since the last one as not_logged.
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
