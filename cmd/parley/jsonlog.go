package main

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"

	"github.com/spf13/cobra"
)

// logFlag is the flag for the format of logs.
type logFlag struct{ format string }

func (f *logFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.format, "log", "text", "`format` of the output on stderr: text, or json with one object per line for log collectors")
}

// apply makes cmd write JSON to stderr if the user wants it.
func (f *logFlag) apply(cmd *cobra.Command) error {
	switch f.format {
	case "text":
	case "json":
		cmd.SetErr(&recordWriter{logger: slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), nil))})
	default:
		return errors.New("--log must be text or json")
	}
	return nil
}

// recordWriter writes each line for the user as a log record. Its methods are safe for concurrent use.
type recordWriter struct {
	logger *slog.Logger

	mu   sync.Mutex
	rest []byte // of a line
}

// loggerOf returns the logger of a writer for log records, or nil for others.
func loggerOf(w io.Writer) *slog.Logger {
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
