package oauth_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the tests, or, when a test has started this binary again, the process
// that it is to play.
func TestMain(m *testing.M) {
	if path := os.Getenv(childVariable); path != "" {
		os.Exit(refreshOnce(path))
	}
	goleak.VerifyTestMain(m)
}
