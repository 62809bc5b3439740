package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/principal"
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

// A proxy on this machine forwards requests of others, so what it forwards is not from the user of this machine.
func TestForwardedRequestsAreNotOfTheLocalUser(t *testing.T) {
	for header, local := range map[string]bool{
		"": true, "X-Other": true, "Forwarded": false, "X-Forwarded-For": false, "X-Real-IP": false, "Via": false, "via": false,
	} {
		r := httptest.NewRequest(http.MethodPost, endpoint, nil)
		if header != "" {
			r.Header.Set(header, "")
		}
		var user any
		ofLocalUser(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { user = rpc.UserOf(r.Context(), new(rpc.Call)) })).ServeHTTP(nil, r)
		if (user == principal.Local) != local {
			t.Errorf("with the header %q: %v", header, user)
		}
	}
}
