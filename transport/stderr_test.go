package transport_test

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/parley-mcp/parley/transport"
)

// records is a slog.Handler that keeps the records.
type records struct {
	mu   sync.Mutex
	kept []slog.Record
}

func (r *records) Enabled(context.Context, slog.Level) bool { return true }
func (r *records) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r *records) WithGroup(string) slog.Handler            { return r }
func (r *records) Handle(_ context.Context, record slog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = append(r.kept, record)
	return nil
}

func TestStderrArrivesLineByLine(t *testing.T) {
	var lines []string
	var log records
	opts := as("stderr")
	opts.Stderr = func(line string) { lines = append(lines, line) }
	opts.Logger = slog.New(&log)
	p := start(t, opts)
	if err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	want := []string{"one", "", "two\uFFFD", strings.Repeat("l", 8<<10), "no newline"}
	if len(lines) != len(want) {
		t.Fatalf("got %d lines: %.200q", len(lines), lines)
	}
	for i, line := range lines {
		if line != want[i] {
			t.Errorf("line %d is %.100q, want %.100q", i, line, want[i])
		}
	}
	if len(log.kept) != len(want) {
		t.Fatalf("%d records were logged, want %d", len(log.kept), len(want))
	}
	for i, record := range log.kept {
		record.Attrs(func(a slog.Attr) bool {
			if a.Key == "line" && a.Value.String() != want[i] || record.Level != slog.LevelInfo {
				t.Errorf("record %d: %v %v", i, record.Level, a)
			}
			return true
		})
	}
}

func TestFloodOnStderrIsDrained(t *testing.T) {
	var log records
	var lines int
	opts := as("flood") // 100 MiB before it serves
	opts.Logger = slog.New(&log)
	opts.Stderr = func(string) { lines++ }
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p := start(t, opts)
	send(t, p, "{}")
	wantMessage(t, p, "{}")
	closeWithin(t, p, testTimeout)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if after.HeapAlloc > before.HeapAlloc+16<<20 {
		t.Errorf("the heap grew by %d bytes", after.HeapAlloc-before.HeapAlloc)
	}
	if lines != 1<<20 {
		t.Errorf("%d lines arrived, want %d", lines, 1<<20)
	}
	if n := len(log.kept); n < 4096 || n > 50_000 {
		t.Errorf("%d records were logged", n)
	}
	dropped := 0
	logged := 0
	for _, record := range log.kept {
		record.Attrs(func(a slog.Attr) bool {
			switch a.Key {
			case "lines":
				dropped += int(a.Value.Int64())
			case "line":
				logged++
			}
			return true
		})
	}
	if dropped+logged != 1<<20 {
		t.Errorf("%d lines were logged and %d omitted, want %d together", logged, dropped, 1<<20)
	}
}

// Rule S2: output on standard error never blocks a server.
func TestStderrIsDrainedWithoutLoggerAndFunction(t *testing.T) {
	p := start(t, as("flood"))
	send(t, p, "{}")
	wantMessage(t, p, "{}")
}

func TestExitErrorHasEndOfStderr(t *testing.T) {
	p := start(t, as("no such role"))
	err, ok := p.Wait().(*transport.ExitError)
	if !ok || err.Code != 1 || !strings.Contains(string(err.Stderr), "no such role") {
		t.Fatalf("got %v", err)
	}
}
