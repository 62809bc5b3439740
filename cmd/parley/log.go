package main

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
)

// newLogger returns a logger that writes one line per record, for the user. If w is for log records, it writes
// those of level info and above.
func newLogger(w io.Writer, level slog.Level) *slog.Logger {
	if logger := loggerOf(w); logger != nil {
		return logger
	}
	return slog.New(&lineHandler{w: w, level: level, mu: new(sync.Mutex)})
}

// lineHandler is a slog.Handler that writes lines like
// "parley: warning: server: message: key=value, …".
type lineHandler struct {
	w      io.Writer
	level  slog.Level
	mu     *sync.Mutex
	server string
	attrs  []slog.Attr
	prefix string
}

// Enabled implements slog.Handler.
func (h *lineHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

// Handle implements slog.Handler.
func (h *lineHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	switch {
	case r.Level >= slog.LevelError:
		b.WriteString("error: ")
	case r.Level >= slog.LevelWarn:
		b.WriteString("warning: ")
	}
	if h.server != "" {
		b.WriteString(h.server + ": ")
	}
	b.WriteString(r.Message)
	separator := ": "
	write := func(a slog.Attr) bool {
		if text := a.Value.Resolve().String(); text != "" {
			b.WriteString(separator + h.prefix + a.Key + "=" + text)
			separator = ", "
		}
		return true
	}
	for _, a := range h.attrs {
		write(a)
	}
	r.Attrs(write)
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := io.WriteString(h.w, "parley: "+terminal.Line(b.String())+"\n")
	return err
}

// WithAttrs implements slog.Handler.
func (h *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := *h
	out.attrs = nil
	for _, a := range append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...) {
		if a.Key == "server" && h.prefix == "" {
			out.server = a.Value.String()
		} else {
			out.attrs = append(out.attrs, a)
		}
	}
	return &out
}

// WithGroup implements slog.Handler.
func (h *lineHandler) WithGroup(name string) slog.Handler {
	out := *h
	out.prefix += name + "."
	return &out
}
