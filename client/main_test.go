package client_test

import (
	"os"
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
	goleak.VerifyTestMain(m)
}
