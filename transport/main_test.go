package transport_test

import (
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the tests, or, when a test has started this binary again as a child process, the part
// that the child is to play.
func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		play(role)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(exitCode int) {
		if testing.CoverMode() != "" {
			os.RemoveAll(coverage())
		}
		os.Exit(exitCode)
	}))
}

// quietExit is the environment in which a child exits without what instrumented programs do then:
// those of the race detector wait for a second, those that measure coverage complain unless they have
// a place for it.
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
