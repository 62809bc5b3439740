package host_test

import (
	"context"
	"testing"

	"github.com/parley-mcp/parley/host"
)

func TestLazyServerStartsWhenItIsNeeded(t *testing.T) {
	for name, use := range map[string]func(context.Context, *host.Host) error{
		"CallTool": func(ctx context.Context, h *host.Host) error {
			_, err := h.CallTool(ctx, "lazy", "who", nil)
			return err
		},
		"Call": func(ctx context.Context, h *host.Host) error {
			_, err := h.Call(ctx, "lazy__who", nil)
			return err
		},
		"Describe": func(ctx context.Context, h *host.Host) error {
			_, err := h.Describe(ctx, "lazy__who")
			return err
		},
		"WaitReady": func(ctx context.Context, h *host.Host) error { return h.WaitReady(ctx, "eager", "lazy") },
	} {
		t.Run(name, func(t *testing.T) {
			lazy := inProcess("lazy")
			lazy.Lazy = true
			h := &host.Host{Servers: []host.ServerConfig{lazy, inMemory(t, "eager")}}
			startReady(t, h)
			if _, err := who(t, h, "eager"); err != nil {
				t.Fatal(err)
			}
			if s := h.Status()[0]; s.State != host.NotStarted || s.State.String() != "not started" || s.State.Usable() || len(h.Tools()) != 2 {
				t.Errorf("the server is %v before it is needed", s.State)
			}
			if err := use(t.Context(), h); err != nil {
				t.Fatal(err)
			}
			if s := h.Status()[0]; s.State != host.Ready || len(h.Tools()) != 4 {
				t.Errorf("the server is %v", s.State)
			}
		})
	}
}

func TestLazyServerEndsWithoutAStart(t *testing.T) {
	lazy := inProcess("lazy")
	lazy.Lazy = true
	h := &host.Host{Servers: []host.ServerConfig{lazy}}
	startReady(t, h)
	if err := h.SetServers(nil); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}
