//lint:file-ignore SA1019 deprecated features must still work

package serving

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/credstore"
	"github.com/parley-mcp/parley/cmd/parley/internal/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/dirwatch"
	"github.com/parley-mcp/parley/cmd/parley/internal/endpoint"
	"github.com/parley-mcp/parley/cmd/parley/internal/form"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/host"
)

// upstreams are the servers of the configuration files of parley up.
type upstreams struct {
	cmd        *cobra.Command
	files      *dialing.ConfigFlags
	options    *upOptions
	values     *config.Values
	status     *endpoint.Status
	authorizer credstore.Authorizer
	callers    *callerAuths // nil for a program that calls no tools
	host       *host.Host
	rules      *rules
	lock       *lockFile // nil without a lock file
	audit      *auditLog // nil without an audit log
	toolsets   *toolsets
	standard   *config.Toolset // served at the endpoint; nil means everything
}

// load loads the files. Which file decides, and the names in rules, webhooks and toolsets, must be clear.
func (u *upstreams) load() (*config.Config, error) {
	loaded, err := u.files.Load(u.cmd)
	if err != nil {
		return nil, err
	}
	return loaded, loaded.Check()
}

// targets returns the enabled servers of the files, and prepares the authorizer for them. It prints the
// servers that it skips because they are disabled or invalid. The error is that of the user who cancels
// the question for an input, or of the stored logins.
func (u *upstreams) targets(loaded *config.Config) ([]host.ServerConfig, error) {
	if len(loaded.Servers) == 0 {
		u.status.Print("  %s has no servers; add servers to \"mcpServers\".\n\n", terminal.Line(loaded.Path()))
	}
	for _, p := range loaded.Problems {
		u.status.Reserve(terminal.Line(p.Name))
	}
	for i := range loaded.Servers {
		u.status.Reserve(loaded.Servers[i].Name)
	}
	for _, p := range loaded.Problems {
		u.status.Failed(terminal.Line(p.Name), p.Err.Error())
	}
	var servers []host.ServerConfig
	var targets []client.Target
	for i := range loaded.Servers {
		s := &loaded.Servers[i]
		if s.Disabled {
			u.status.Note(s.Name, "disabled")
			continue
		}
		target, err := s.Target(u.values)
		if errors.Is(err, form.ErrInterrupted) { // the user has cancelled the question for an input
			return nil, err
		}
		if err != nil {
			u.status.Failed(s.Name, err.Error())
			continue
		}
		roots, err := dialing.RootsOf(s, u.values)
		if err != nil {
			u.status.Failed(s.Name, err.Error())
			continue
		}
		settings := s.Settings()
		settings.Target, settings.Roots = target, roots
		if settings.CallerAuth, err = u.callerAuth(s, target); err != nil {
			u.status.Failed(s.Name, err.Error())
			continue
		}
		servers = append(servers, *settings)
		targets = append(targets, target)
	}
	if u.callers != nil {
		u.callers.keep(servers)
	}
	return servers, u.authorizer.SetTargets(u.cmd.Context(), targets...)
}

// callerAuth returns how a server receives credentials of each caller; nil if the operator's are for all.
func (u *upstreams) callerAuth(s *config.Server, target client.Target) (*host.CallerAuth, error) {
	c, err := s.CallerCredentials(u.values)
	if err != nil {
		return nil, err
	}
	at, isURL := target.(*client.HTTPTarget)
	if !isURL || u.callers == nil {
		return nil, nil
	}
	return u.callers.of(s.Name, at.URL, c)
}

// watch reloads the files when one of them changes, and on SIGHUP, until ctx ends. It calls stop when
// the terminal is closed, which is a SIGHUP too.
func (u *upstreams) watch(ctx context.Context, stop func()) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	atTerminal := terminal.Is(u.cmd.ErrOrStderr())
	paths := u.files.Files()
	if u.lock != nil {
		paths = append(slices.Clone(paths), u.lock.path)
	}
	changed, err := dirwatch.Files(ctx, paths)
	if err != nil {
		u.cmd.PrintErrln("parley: warning: cannot watch the configuration files; send SIGHUP to reload them: " +
			terminal.Line(err.Error()))
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
			u.reopenAudit()
		}
		if err := u.reload(ctx); err != nil {
			u.cmd.PrintErrln("parley: warning: configuration not changed: " + terminal.Line(err.Error()))
		}
	}
}

// watchLogins makes the host try servers again that need a login, when the stored logins have changed, until ctx ends.
// A user logs in with another process.
func (u *upstreams) watchLogins(ctx context.Context) {
	for status := range u.host.Watch(ctx) {
		if status.State == host.NeedsLogin {
			break
		}
	}
	path, err := credstore.TokensPath()
	if err == nil && ctx.Err() == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	var changed <-chan struct{}
	if err == nil {
		changed, err = dirwatch.Files(ctx, []string{path})
	}
	if err != nil { // servers are tried again for calls, and from time to time
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			u.host.LoginsChanged()
		}
	}
}

// checked yields statuses, and checks the rules of each.
func (u *upstreams) checked(statuses iter.Seq[host.ServerStatus]) iter.Seq[host.ServerStatus] {
	return func(yield func(host.ServerStatus) bool) {
		for status := range statuses {
			u.checkRules(&status)
			if !yield(status) {
				return
			}
		}
	}
}

// checkRules prints each rule that names a tool that a server does not offer, once after each loading of the rules.
func (u *upstreams) checkRules(status *host.ServerStatus) {
	set := u.rules.current.Load()
	for _, text := range set.unknownTools(status) {
		if _, printed := set.printed.LoadOrStore(text, true); !printed {
			u.cmd.PrintErrln("parley: warning: " + terminal.Line(text))
		}
	}
}

// reopenAudit opens the audit log again, because a program that rotates logs may have renamed it.
func (u *upstreams) reopenAudit() {
	if u.audit == nil {
		return
	}
	if err := u.audit.reopen(); err != nil {
		u.cmd.PrintErrln("parley: warning: " + terminal.Line(err.Error()))
	}
}

// standardOf returns the toolset to serve at the endpoint; nil means everything.
func (u *upstreams) standardOf(loaded *config.Config) (*config.Toolset, error) {
	name := cmp.Or(u.options.toolset, loaded.DefaultToolset)
	toolset := loaded.Toolset(name)
	if toolset == nil && name != "" {
		return nil, fmt.Errorf("unknown toolset %q; parley config show prints the toolsets of the file", name)
	}
	return toolset, nil
}

// below returns the toolsets to serve below the endpoint.
func (u *upstreams) below(loaded *config.Config) []config.Toolset {
	if u.options.stdio { // there are no paths
		return nil
	}
	return loaded.Toolsets
}

// reload reads the files again. Servers whose configuration is the same continue.
func (u *upstreams) reload(ctx context.Context) error {
	loaded, err := u.load()
	if err != nil {
		return err
	}
	set, err := u.rules.load(loaded, u.values)
	if err != nil {
		return err
	}
	if u.lock != nil {
		commit, err := u.lock.prepare()
		if err != nil {
			return err
		}
		commit()
	}
	servers, err := u.targets(loaded)
	if err != nil {
		return err
	}
	if err := u.toolsets.serve(ctx, u.below(loaded)); err != nil {
		return err
	}
	if u.rules.set(set) { // before the servers, which may be new
		u.host.PolicyChanged()
	}
	u.host.ReviewAgain()
	if err := u.host.SetServers(servers); err != nil {
		return err
	}
	if now, err := u.standardOf(loaded); err != nil || (now == nil) != (u.standard == nil) || now != nil &&
		!sameToolset(*now, *u.standard) {
		u.cmd.PrintErrln("parley: warning: the toolset of the endpoint has changed; restart parley to use it")
	}
	u.status.Print("  Configuration reloaded.\n")
	for _, status := range u.host.Status() {
		u.checkRules(&status)
	}
	return nil
}
