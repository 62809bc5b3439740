package server_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the tests, or, when a test has started this binary again as a
// child process, the server that the child is to be.
func TestMain(m *testing.M) {
	if os.Getenv(runVariable) != "" {
		run()
		return
	}
	goleak.VerifyTestMain(m)
}
