package main

import (
	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/config"
	"github.com/parley-mcp/parley/host"
)

// guardFlags are the flags of parley up for the lock file and the audit log.
type guardFlags struct {
	lock  string
	audit auditFlags
}

func (f *guardFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.lock, "lock", "", "lock `file` (default mcp.lock next to the first file, if it exists)")
	f.audit.add(cmd)
}

// guard reads the policy, the webhooks and the lock file, and opens the audit log.
func (u *upstreams) guard(flags *guardFlags, loaded *config.Config) (err error) {
	u.rules = newRules(u.cmd)
	set, err := u.rules.load(loaded, u.values)
	if err != nil {
		return err
	}
	u.rules.set(set)
	if u.lock, err = openLock(flags.lock, u.files); err != nil {
		return err
	}
	if u.audit, err = flags.audit.open(u.cmd); u.audit != nil {
		u.audit.written = func(server string) string { return u.rules.current.Load().written(server) }
	}
	return err
}

// applyGuard sets the fields of a host.
func (u *upstreams) applyGuard(h *host.Host) {
	u.rules.apply(h)
	if u.lock != nil {
		h.Review = u.lock.review
	}
	if u.audit != nil {
		h.Audit = u.audit.record
	}
}
