//go:build integration && unix

package faults

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The environment variables that make this test program a server or a gateway. Their values are settings as JSON.
const (
	serverVariable  = "PARLEY_FAULTS_SERVER"
	gatewayVariable = "PARLEY_FAULTS_GATEWAY"
)

var (
	duration   = flag.Duration("duration", 0, "how long to inject faults, in all tests together; 0 means each fault once")
	totalsFile = flag.String("totals", "../../.out/faults/totals.json",
		"file to which the totals of each test are appended")
)

func TestMain(m *testing.M) {
	for variable, run := range map[string]func(string) error{serverVariable: runServer, gatewayVariable: runGateway} {
		if settings := os.Getenv(variable); settings != "" {
			if err := run(settings); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	flag.Parse()
	goleak.VerifyTestMain(m)
}

// loads is the number of tests and subtests that call repeat.
const loads = 8

// repeat calls f once, or again and again for a share of the time that the flag -duration sets.
func repeat(f func()) {
	until := time.Now().Add(*duration / loads)
	for first := true; first || time.Now().Before(until); first = false {
		f()
	}
}
