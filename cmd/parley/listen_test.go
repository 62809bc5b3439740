package main

import (
	"testing"

	"github.com/parley-mcp/parley/server"
)

func TestLimitFlagsSetTheRatesOfTheServer(t *testing.T) {
	for args, want := range map[[2]string]server.Limits{
		{}:                                     {CallsPerSecond: defaultLimitCalls, CallBurst: 2 * defaultLimitCalls, ListsPerSecond: defaultLimitLists},
		{"--limit-calls=5", "--limit-lists=7"}: {CallsPerSecond: 5, CallBurst: 10, ListsPerSecond: 7},
		{"--limit-calls=0", "--limit-lists=0"}: {CallsPerSecond: -1},
	} {
		cmd := newServe()
		var flags httpFlags
		cmd.ResetFlags()
		flags.add(cmd)
		if err := cmd.ParseFlags(args[:]); err != nil {
			t.Fatal(err)
		}
		s := &server.Server{}
		flags.limit(s)
		if s.Limits != want {
			t.Errorf("%q: %+v, want %+v", args, s.Limits, want)
		}
	}
}
