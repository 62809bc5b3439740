package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/host"
)

// upstreams are the servers of the configuration files of parley up.
type upstreams struct {
	cmd        *cobra.Command
	files      *configFlags
	values     *config.Values
	status     *statusPrinter
	authorizer authorizer
	host       *host.Host
}

// targets returns the enabled servers of the files, and prepares the authorizer for them. It prints the
// servers that it skips because they are disabled or invalid. The error is that of the user who cancels
// the question for an input, or of the stored logins.
func (u *upstreams) targets(loaded *config.Config) ([]host.ServerConfig, error) {
	if len(loaded.Servers) == 0 {
		u.status.print("  %s has no servers; add servers to \"mcpServers\".\n\n", terminal.Line(loaded.Path()))
	}
	for _, p := range loaded.Problems {
		u.status.reserve(terminal.Line(p.Name))
	}
	for i := range loaded.Servers {
		u.status.reserve(loaded.Servers[i].Name)
	}
	for _, p := range loaded.Problems {
		u.status.failed(terminal.Line(p.Name), p.Err.Error())
	}
	var servers []host.ServerConfig
	var targets []client.Target
	for i := range loaded.Servers {
		s := &loaded.Servers[i]
		if s.Disabled {
			u.status.note(s.Name, "disabled")
			continue
		}
		target, err := s.Target(u.values)
		if cancelled := new(codeError); errors.As(err, &cancelled) {
			return nil, err
		}
		if err != nil {
			u.status.failed(s.Name, err.Error())
			continue
		}
		servers = append(servers, host.ServerConfig{Name: s.Name, Target: target})
		targets = append(targets, target)
	}
	return servers, u.authorizer.setTargets(u.cmd.Context(), targets...)
}

// watch reloads the files when one of them changes, and on SIGHUP, until ctx ends. It calls stop when
// the terminal is closed, which is a SIGHUP too.
func (u *upstreams) watch(ctx context.Context, stop func()) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	atTerminal := terminal.Is(u.cmd.ErrOrStderr())
	changed, err := watchFiles(ctx, u.files.paths)
	if err != nil {
		u.cmd.PrintErrln("parley: warning: cannot watch the configuration files; send SIGHUP to reload them: " + terminal.Line(err.Error()))
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-hangup:
			if atTerminal && !terminal.Is(u.cmd.ErrOrStderr()) {
				stop()
				return
			}
		}
		if err := u.reload(); err != nil {
			u.cmd.PrintErrln("parley: warning: configuration not changed: " + terminal.Line(err.Error()))
		}
	}
}

// reload reads the files again. Servers whose configuration is the same continue.
func (u *upstreams) reload() error {
	loaded, err := u.files.load(u.cmd)
	if err != nil {
		return err
	}
	servers, err := u.targets(loaded)
	if err != nil {
		return err
	}
	if err := u.host.SetServers(servers); err != nil {
		return err
	}
	u.status.print("  Configuration reloaded.\n")
	return nil
}
