//go:build integration && unix

package faults

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// replicaVariable is the environment variable that makes this test program a replica.
const replicaVariable = "PARLEY_FAULTS_REPLICA"

var (
	duration = flag.Duration("duration", 0,
		"how long to inject faults, in all tests together; 0 means a small number of faults")
	totalsFile = flag.String("totals", "../../../.out/faults/totals.json",
		"file to which the totals of each test are appended")
)

func TestMain(m *testing.M) {
	for variable, run := range map[string]func(string) error{replicaVariable: runReplica,
		upstreamVariable: runUpstream} {
		if settings := os.Getenv(variable); settings != "" {
			if err := run(settings); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	flag.Parse()
	os.Exit(m.Run())
}
