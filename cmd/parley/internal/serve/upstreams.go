package serve

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/login/credstore"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/serve/dirwatch"
	"github.com/parley-mcp/parley/cmd/parley/internal/serve/endpoint"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/host"
)

// upstreams are the servers of the configuration files of parley up.
type upstreams struct {
	cmd        *cobra.Command
	files      *dialing.ConfigFlags
	flags      *upFlags
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
	unusable   unusable        // the entries that are not served
}

// load loads the files. Which file decides, and the names in rules, webhooks and toolsets, must be clear.
func (u *upstreams) load() (*config.Config, error) {
	loaded, err := u.files.Load(u.cmd)
	if err != nil {
		return nil, err
	}
	return loaded, loaded.Check()
}

// watchLogins makes the host try servers again that need a login, when the stored logins have changed, until ctx ends.
// A user logs in with another process.
func (u *upstreams) watchLogins(ctx context.Context) {
	path, err := credstore.TokensPath()
	before := dirwatch.StateOf(path)
	for status := range u.host.Watch(ctx) {
		if status.State == host.NeedsLogin {
			break
		}
	}
	if err != nil { // servers are tried again for calls, and from time to time
		return
	}
	changed := dirwatch.Files(ctx, []string{path}, before)
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			u.host.LoginsChanged()
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

// standardOf returns the toolset to serve at the endpoint; nil means everything.
func (u *upstreams) standardOf(loaded *config.Config) (*config.Toolset, error) {
	name := cmp.Or(u.flags.toolset, loaded.DefaultToolset)
	toolset := loaded.Toolset(name)
	if toolset == nil && name != "" {
		return nil, fmt.Errorf("unknown toolset %q; parley config show prints the toolsets of the file", name)
	}
	return toolset, nil
}

// below returns the toolsets to serve below the endpoint.
func (u *upstreams) below(loaded *config.Config) []config.Toolset {
	if u.flags.stdio { // there are no paths
		return nil
	}
	return loaded.Toolsets
}
