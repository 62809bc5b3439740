package server_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the tests, or, in a child process that a test has started, the server for that test.
func TestMain(m *testing.M) {
	if os.Getenv(runVariable) != "" {
		run()
		return
	}
	goleak.VerifyTestMain(m)
}
