package host_test

import (
	"slices"
	"testing"

	"github.com/parley-mcp/parley/host"
)

// A name that a second server has too is withheld from the first at the same moment.
func TestStatusesAreOfOneMoment(t *testing.T) {
	a, b := inMemory(t, "a"), inMemory(t, "b")
	a.Prefix, b.Prefix = new(""), new("")
	h := start(t, &host.Host{Servers: []host.ServerConfig{a, b}})
	if err := h.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 2000 {
			b.Prefix = new([]string{"b", ""}[i%2])
			if err := h.SetServers([]host.ServerConfig{a, b}); err != nil {
				t.Error(err)
			}
		}
	}()
	for {
		all := h.Status()
		first := slices.ContainsFunc(all[0].Tools, func(tool host.MergedTool) bool { return tool.Name == "who" })
		if withPrefix := all[1].Prefix != ""; first != withPrefix {
			t.Errorf("the server a has the name: %t, the server b has another: %t", first, withPrefix)
			<-done
			return
		}
		select {
		case <-done:
			return
		default:
		}
	}
}
