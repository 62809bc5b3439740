package client_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the tests, or, when a test has started this binary again as a
// child process, the server that the child is to play.
func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		play(role)
		return
	}
	goleak.VerifyTestMain(m)
}
