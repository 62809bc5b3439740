package program

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
)

// NewLogger returns a logger that writes one line per record, for the user. If w is for log records, it writes
// those of level info and above.
func NewLogger(w io.Writer, level slog.Level) *slog.Logger {
	if logger := LoggerOf(w); logger != nil {
		return logger
	}
	return slog.New(&lineHandler{w: w, level: level, mu: new(sync.Mutex)})
}

// lineHandler is a slog.Handler that writes lines like "parley: warning: server: message: key=value, …". The attribute
// "error" is written without its key. A line of a server's standard error is written as it is, after the name of the
// server, because indentation matters, for example in tracebacks.
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
	if r.Message == "server stderr" {
		return h.writeStderr(r)
	}
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
		text := a.Value.Resolve().String()
		switch {
		case text == "":
			return true
		case a.Key == "error" && h.prefix == "":
			b.WriteString(separator + text)
		default:
			b.WriteString(separator + h.prefix + a.Key + "=" + text)
		}
		separator = ", "
		return true
	}
	for _, a := range h.attrs {
		write(a)
	}
	r.Attrs(write)
	return h.write("parley: " + terminal.Bounded(b.String()))
}

// writeStderr writes the record of a line of a server's standard error.
func (h *lineHandler) writeStderr(r slog.Record) error {
	line := ""
	r.Attrs(func(a slog.Attr) bool {
		line = a.Value.String()
		return false
	})
	text := terminal.Line(cmp.Or(h.server, "server")) + " | " + terminal.Cut(terminal.Block(line))
	return h.write(strings.TrimRight(text, " \t"))
}

func (h *lineHandler) write(line string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := io.WriteString(h.w, line+"\n")
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

// LogFlag is the flag for the format of logs.
type LogFlag struct{ Format string }

func (f *LogFlag) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Format, "log", "text",
		"`format` of the output on stderr: text, or json with one object per line for log collectors")
}

// Apply makes cmd write JSON to stderr if the user wants it.
func (f *LogFlag) Apply(cmd *cobra.Command) error {
	switch f.Format {
	case "text":
	case "json":
		cmd.SetErr(&recordWriter{logger: slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(),
			&slog.HandlerOptions{ReplaceAttr: BoundedAttr}))})
	default:
		return errors.New("--log must be text or json")
	}
	return nil
}

// BoundedAttr returns an attribute of a log record whose text, which may come from a server or a client, is not longer
// than a line of a log. It is for slog.HandlerOptions.
func BoundedAttr(_ []string, attr slog.Attr) slog.Attr {
	value := attr.Value.Resolve()
	if err, ok := value.Any().(error); ok {
		value = slog.StringValue(err.Error())
	}
	if value.Kind() == slog.KindString {
		attr.Value = slog.StringValue(terminal.Cut(value.String()))
	}
	return attr
}

// recordWriter writes each line for the user as a log record. Its methods are safe for concurrent use.
type recordWriter struct {
	logger *slog.Logger

	mu   sync.Mutex
	rest []byte // of a line
}

// LoggerOf returns the logger of a writer for log records, or nil for others.
func LoggerOf(w io.Writer) *slog.Logger {
	if r, ok := w.(*recordWriter); ok {
		return r.logger
	}
	return nil
}

// Write implements io.Writer.
func (r *recordWriter) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rest = append(r.rest, p...)
	for {
		line, rest, found := bytes.Cut(r.rest, []byte("\n"))
		if !found {
			return len(p), nil
		}
		r.rest = rest
		record(r.logger, string(line))
	}
}

// record logs a line. Lines with a prefix have its level.
func record(logger *slog.Logger, line string) {
	text := strings.TrimPrefix(strings.TrimSpace(line), "parley: ")
	if rest, found := strings.CutPrefix(text, "warning: "); found {
		logger.Warn(rest)
	} else if text != "" {
		logger.Info(text)
	}
}
