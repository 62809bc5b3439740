package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

func TestFlagsOfTheEndpointRequireHTTP(t *testing.T) {
	for _, flag := range []string{"--allow-host=a", "--allow-origin=a", "--public-url=a", "--tls-cert=a", "--tls-key=a"} {
		for _, args := range [][]string{{"serve", "--stdio"}, {"up", "--stdio"}, {"bridge", "server"}, {"mock", "file"}} {
			cmd := newRoot()
			cmd.SetArgs(append(args, flag))
			cmd.SetOut(io.Discard)
			cmd.SetErr(new(bytes.Buffer))
			name, _, _ := strings.Cut(flag, "=")
			if err := cmd.ExecuteContext(t.Context()); err == nil ||
				!strings.HasPrefix(err.Error(), name+" has an effect over HTTP only") {
				t.Errorf("%v %s: %v", args, flag, err)
			}
		}
	}
}
