// Package faulttest contains helpers for tests with failing processes. Only tests import it.
package faulttest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/ledger"
	"github.com/parley-mcp/parley/jsonrpc"
)

// Patience is how long a test waits for a condition before it fails.
const Patience = 60 * time.Second

// Wait calls f until it succeeds. It fails the test after Patience.
func Wait(t testing.TB, what string, f func() error) {
	t.Helper()
	if err := Within(Patience, f); err != nil {
		t.Fatalf("waited %v until %s: %v", Patience, what, err)
	}
}

// Within calls f until it succeeds, and returns its last error if it does not succeed in
// time.
func Within(limit time.Duration, f func() error) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return err
		}
	}
}

// Report checks a ledger and appends its totals to a file.
func Report(t *testing.T, l *ledger.Ledger, began time.Time, file string) {
	t.Helper()
	totals, violations := l.Check()
	t.Log(totals)
	for _, v := range violations {
		t.Error(v)
	}
	if n := totals.Violations(); n > len(violations) {
		t.Errorf("and %d more violations", n-len(violations))
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := totals.Append(file, t.Name(), time.Since(began)); err != nil {
		t.Fatal(err)
	}
}

// Typed reports whether the caller can act upon an error of a call. See ledger.Ledger.Typed.
func Typed(err error) bool {
	for _, known := range []error{
		call.ErrConnectionLost, call.ErrNotSent, call.ErrClosed, context.Canceled, context.DeadlineExceeded,
		client.ErrTaskCancelled, client.ErrTaskNotFound,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	var rpc *jsonrpc.Error
	var status *call.StatusError
	var overload *call.OverloadError
	var tool *client.ToolError
	return errors.As(err, &rpc) || errors.As(err, &status) || errors.As(err, &overload) || errors.As(err, &tool)
}
