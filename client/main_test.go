package client_test

import (
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the tests, or a scripted server if a test has started this binary as a
// child process.
func TestMain(m *testing.M) {
	if s := os.Getenv(scriptVariable); s != "" {
		runScript(s)
		return
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(exitCode int) {
		if testing.CoverMode() != "" {
			_ = os.RemoveAll(coverage())
		}
		os.Exit(exitCode)
	}))
}

// quietExit returns the environment in which an instrumented child exits at once and without a warning: with the race
// detector it would sleep, and with coverage it would print a warning. All tests share one directory for coverage,
// because a child that Dial has given up on may write there after its test.
func quietExit() []string {
	env := []string{"GORACE=atexit_sleep_ms=0"}
	if testing.CoverMode() != "" {
		env = append(env, "GOCOVERDIR="+coverage())
	}
	return env
}

var coverage = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	return dir
})
