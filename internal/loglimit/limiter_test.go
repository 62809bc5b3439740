package loglimit_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/internal/loglimit"
	"github.com/parley-mcp/parley/internal/must"
)

// Rule Y4: requests and messages that are rejected add a limited number of log lines per period.
// The next line reports how many were not logged.
func TestRejectionsDoNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&out, nil))
		var f loglimit.Limiter
		lines := func() int { return strings.Count(out.String(), "\n") }
		for range 1000 {
			f.Log(context.Background(), logger, slog.LevelWarn, "request rejected")
			f.Log(context.Background(), logger, slog.LevelDebug, "not enabled") // does not count
		}
		must.CheckEqual(t, lines(), loglimit.Lines)
		time.Sleep(loglimit.Period)
		f.Log(context.Background(), logger, slog.LevelWarn, "request rejected")
		if n := lines(); n != loglimit.Lines+1 || !strings.Contains(out.String(), "not_logged=970") {
			t.Errorf("%d lines: %s", n, out.String()[max(0, out.Len()-200):])
		}
		f.Flush(context.Background(), logger) // nothing was omitted since
		for range 40 {
			f.Log(context.Background(), logger, slog.LevelWarn, "request rejected")
		}
		for range 2 {
			f.Flush(context.Background(), logger)
		}
		if n := lines(); n != 2*loglimit.Lines+1 || !strings.HasSuffix(out.String(), "not_logged=11\n") {
			t.Errorf("%d lines: %s", n, out.String()[max(0, out.Len()-200):])
		}
	})
}
