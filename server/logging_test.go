package server

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

type logSink struct {
	mu  sync.Mutex
	all []string
}

func (l *logSink) Write(_ context.Context, msg []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(msg))
	return jsonrpc.Check(msg, jsonrpc.Limits{})
}

type stranger struct{}

func (stranger) MarshalJSON() ([]byte, error) { panic("surprise") }

type secret string

func (secret) LogValue() slog.Value { return slog.StringValue("[redacted]") }

func TestLogRecordsBecomeObjectsWithoutDuplicateNames(t *testing.T) {
	for name, tt := range map[string]struct {
		log  func(*slog.Logger)
		want string
	}{
		"message": {func(l *slog.Logger) { l.Info("hi\n\"you\"") }, `"data":{"message":"hi\n\"you\""}`},
		"values": {func(l *slog.Logger) {
			l.Info("", "i", int64(9007199254740993), "b", true, "f", 1.5, "d", time.Second)
		}, `{"b":true,"d":"1s","f":1.5,"i":9007199254740993,"message":""}`},
		"an error": {func(l *slog.Logger) { l.Info("", "e", errors.New("no")) }, `"e":"no"`},
		"groups of values": {func(l *slog.Logger) {
			l.Info("", slog.Group("g", "a", 1, slog.Group("", "b", 2), slog.Group("empty")))
		}, `{"g":{"a":1,"b":2},"message":""}`},
		"a name twice": {func(l *slog.Logger) {
			l.With("a", 1).Info("", "a", 2, "message", "fake")
		}, `{"a":2,"message":""}`},
		"groups are names": {func(l *slog.Logger) {
			l.WithGroup("a").WithGroup("b").Info("x")
		}, `"logger":"a.b","data":{"message":"x"}`},
		"redaction": {func(l *slog.Logger) { l.Info("", "s", secret("hunter2")) }, `"s":"[redacted]"`},
		"not a number": {func(l *slog.Logger) {
			l.Info("", "c", make(chan int))
		}, `"c":"!ERROR: json: unsupported type: chan int"`},
		"a panic":         {func(l *slog.Logger) { l.Info("", "p", stranger{}) }, `"p":"!ERROR: panic: surprise"`},
		"bytes not UTF-8": {func(l *slog.Logger) { l.Info("a\xffb", "k\xff", "v\xff") }, `a�b`},
		"too large": {func(l *slog.Logger) {
			l.Info(strings.Repeat("m", 10<<10), "big", strings.Repeat("x", 64<<10))
		}, `mmm","truncated":true}`},
	} {
		t.Run(name, func(t *testing.T) {
			var out logSink
			ctx := rpc.NewContext(t.Context(), &rpc.Call{LogLevel: mcp.LevelDebug, Stream: &out})
			tt.log(Logger(ctx))
			must.CheckThat(t, len(out.all) == 1 && strings.Contains(out.all[0], tt.want),
				"sent %s, want %s", out.all, tt.want)
			if len(out.all) == 1 && len(out.all[0]) > 70<<10 {
				t.Errorf("%d bytes were sent", len(out.all[0]))
			}
		})
	}
}

func TestDerivedLoggersAreIndependent(t *testing.T) {
	var out logSink
	ctx := rpc.NewContext(t.Context(), &rpc.Call{LogLevel: mcp.LevelDebug, Stream: &out})
	base := Logger(ctx).With("a", 1)
	one, two := base.With("b", 2), base.With("c", 3)
	one.Info("one")
	two.Info("two")
	got := strings.Join(out.all, "")
	must.CheckThat(t, strings.Count(got, `"b"`) == 1 && strings.Count(got, `"c"`) == 1, "sent %s", got)
}

func TestALoggerOutsideOfAHandlerDropsRecords(t *testing.T) {
	must.CheckThat(t, !Logger(t.Context()).Enabled(t.Context(), levelEmergency), "it is enabled")
}
