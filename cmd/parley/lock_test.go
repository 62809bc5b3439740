package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/host"
)

func TestLockNamesTheReasonOfMissingDefinitions(t *testing.T) {
	flags := &lockFlags{timeout: time.Second}
	for want, status := range map[string]host.ServerStatus{
		`server "files": tools: too many entries`: {Name: "files", State: host.Degraded, Incomplete: errors.New("tools: too many entries")},
		`server "files": exit status 1`:           {Name: "files", State: host.Down, Err: errors.New("exit status 1")},
		"has not started within 1s":               {Name: "files", State: host.Starting},
	} {
		if err := flags.missing(&status); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", status.State, err, want)
		}
	}
	if err := flags.missing(&host.ServerStatus{Name: "files", State: host.Ready}); err != nil {
		t.Errorf("a server that is ready: %v", err)
	}
}
