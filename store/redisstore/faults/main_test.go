//go:build integration && unix

package faults

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/ledger"
)

// replicaVariable is the environment variable that makes this test program a replica.
const replicaVariable = "PARLEY_FAULTS_REPLICA"

var (
	duration   = flag.Duration("duration", 0, "how long to inject faults, in all tests together; 0 means a small number of faults")
	totalsFile = flag.String("totals", "../../../.out/faults/totals.json", "file to which the totals of each test are appended")
)

func TestMain(m *testing.M) {
	if settings := os.Getenv(replicaVariable); settings != "" {
		if err := runReplica(settings); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	os.Exit(m.Run())
}

// patience limits the waits for a condition. A test that waits for so long fails.
const patience = 60 * time.Second

// wait tries until f succeeds.
func wait(t testing.TB, what string, f func() error) {
	t.Helper()
	if err := within(patience, f); err != nil {
		t.Fatalf("waited %v until %s: %v", patience, what, err)
	}
}

// within tries until f succeeds, and returns its last error if it does not succeed in time.
func within(limit time.Duration, f func() error) error {
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

// report checks a ledger and appends its totals to the file.
func report(t *testing.T, l *ledger.Ledger, began time.Time) {
	t.Helper()
	totals, violations := l.Check()
	t.Log(totals)
	for _, v := range violations {
		t.Error(v)
	}
	if n := totals.Violations(); n > len(violations) {
		t.Errorf("and %d more violations", n-len(violations))
	}
	if err := os.MkdirAll(filepath.Dir(*totalsFile), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := totals.Append(*totalsFile, t.Name(), time.Since(began)); err != nil {
		t.Fatal(err)
	}
}
