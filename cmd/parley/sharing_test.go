package main

import (
	"io"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/host"
)

func TestStatusTellsWhichServersHaveOneClientPerCaller(t *testing.T) {
	p := newStatusPrinter(io.Discard)
	for sharing, want := range map[host.Sharing]bool{host.Shared: false, host.PerCaller: true} {
		if text := p.summary(host.ServerStatus{State: host.Ready, Sharing: sharing}); strings.Contains(text, "one client per caller") != want {
			t.Errorf("%v: %s", sharing, text)
		}
	}
}
