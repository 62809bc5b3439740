package dialing

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/credstore"
	"github.com/parley-mcp/parley/cmd/parley/internal/form"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
)

// StartServers starts the enabled servers of files, and waits until each is ready or has failed. The caller closes the
// host. failed has the errors of servers that cannot be started, for example because a variable is missing. review is
// that of the host; it can be nil.
func StartServers(cmd *cobra.Command, files *ConfigFlags, loaded *config.Config, timeout time.Duration,
	review func(host.Definition) error) (h *host.Host, failed map[string]error, err error) {
	if timeout <= 0 {
		return nil, nil, errors.New("--timeout must be positive")
	}
	values, err := files.Values(cmd)
	if err != nil {
		return nil, nil, err
	}
	failed = make(map[string]error)
	var servers []host.ServerConfig
	var targets []client.Target
	for i := range loaded.Servers {
		s := &loaded.Servers[i]
		if s.Disabled {
			continue
		}
		target, err := s.Target(values)
		if errors.Is(err, form.ErrInterrupted) { // the user has cancelled the question for an input
			return nil, nil, err
		}
		var roots []mcp.Root
		if err == nil {
			roots, err = RootsOf(s, values)
		}
		if err != nil {
			failed[s.Name] = err
			continue
		}
		settings := s.Settings()
		settings.Target, settings.Roots, settings.Lazy, settings.Idle = target, roots, false, 0
		servers, targets = append(servers, *settings), append(targets, target)
	}
	auth := new(credstore.Authorizer)
	if err := auth.SetTargets(cmd.Context(), targets...); err != nil {
		return nil, nil, err
	}
	quiet := slog.New(slog.DiscardHandler)
	h = &host.Host{
		Servers: servers, Logger: quiet, Review: review,
		Dialer: client.Dialer{Name: "parley", Version: program.Version(), Auth: auth, Logger: quiet},
	}
	if err := h.Start(); err != nil {
		return nil, nil, err
	}
	WaitReady(cmd, h, timeout)
	if ctx := cmd.Context(); ctx.Err() != nil {
		return nil, nil, errors.Join(context.Cause(ctx), h.Close())
	}
	return h, failed, nil
}

// WaitReady waits until no server is starting, but not longer than timeout. At a terminal it shows for which servers it
// waits. The status of the servers has the errors.
func WaitReady(cmd *cobra.Command, h *host.Host, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
	defer cancel()
	all := h.Status()
	if len(all) == 0 || !terminal.Is(cmd.ErrOrStderr()) {
		_ = h.WaitReady(ctx)
		return
	}
	progress := terminal.NewProgress(cmd.ErrOrStderr(), "")
	defer progress.Done()
	for range h.Watch(ctx) {
		var starting []string
		for _, s := range h.Status() {
			if s.State == host.Starting {
				starting = append(starting, s.Name)
			}
		}
		if len(starting) == 0 {
			return
		}
		progress.Set(float64(len(all)-len(starting)), float64(len(all)), "waiting for "+strings.Join(starting, ", "))
	}
}
