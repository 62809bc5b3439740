package httpwire

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Y4: rejected requests add a limited number of log lines per period. The next line
// reports how many were not logged.
func TestRejectedRequestsDoNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&out, nil))
		var f rejectionLog
		lines := func() int { return strings.Count(out.String(), "\n") }
		for range 1000 {
			f.log(context.Background(), logger, slog.LevelWarn, "request rejected")
			f.log(context.Background(), logger, slog.LevelDebug, "not enabled") // does not count
		}
		if n := lines(); n != rejectionLines {
			t.Errorf("%d lines, want %d", n, rejectionLines)
		}
		time.Sleep(rejectionPeriod)
		f.log(context.Background(), logger, slog.LevelWarn, "request rejected")
		if n := lines(); n != rejectionLines+1 || !strings.Contains(out.String(), "not_logged=970") {
			t.Errorf("%d lines: %s", n, out.String()[max(0, out.Len()-200):])
		}
	})
}
