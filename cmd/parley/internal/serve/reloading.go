package serve

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/login/credstore"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/serve/dirwatch"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/form"
	"github.com/parley-mcp/parley/host"
)

// watched returns the files whose changes matter: the configuration, and the lock file or where it would be.
func (u *upstreams) watched(lock string) []string {
	paths := slices.Clone(u.files.Files())
	if lock != "" {
		return append(paths, lock)
	}
	return append(paths, defaultLocks(u.files)...)
}

// watch reloads the files when one of them has changed since they had the state before, and on SIGHUP, until ctx ends.
// It calls stop when the terminal closes, which is a SIGHUP too.
func (u *upstreams) watch(ctx context.Context, stop func(), paths []string, before dirwatch.State) {
	hangup := make(chan os.Signal, 1)
	controlling := terminal.NewControlling()
	defer controlling.Stop()
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	changed := dirwatch.Files(ctx, paths, before)
	for {
		select {
		case <-ctx.Done():
			return
		case <-controlling.Check():
			controlling.Closed() // without a signal, so that the next one is for a reload
			continue
		case <-changed:
		case <-hangup:
			if controlling.Closed() {
				stop()
				return
			}
			if err := u.audit.reopen(); err != nil { // a program that rotates logs may have renamed the file
				u.cmd.PrintErrln("parley: warning: " + terminal.Line(err.Error()))
			}
		}
		if err := u.reload(); err != nil {
			u.cmd.PrintErrln("parley: warning: configuration not changed: " + terminal.Line(err.Error()))
		}
	}
}

// reload reads the files again. Servers whose configuration is the same continue. If a part of the files cannot be
// used, nothing changes.
func (u *upstreams) reload() error {
	loaded, err := u.load()
	if err != nil {
		return err
	}
	commit, err := prepare(loaded, u.toolsetsPart, u.rulesPart, u.lockPart, u.serversPart)
	if err != nil {
		return err
	}
	commit()
	u.status.Print("  Configuration reloaded.\n")
	for _, status := range u.host.Status() {
		u.checkRules(&status)
	}
	return nil
}

// toolsetsPart is the [part] of the toolsets.
func (u *upstreams) toolsetsPart(loaded *config.Config) (commit func(), err error) {
	now, err := u.standardOf(loaded)
	if err != nil {
		return nil, err
	}
	serve, err := u.toolsets.prepare(u.below(loaded))
	return func() {
		serve()
		if (now == nil) != (u.standard == nil) || now != nil && !sameToolset(*now, *u.standard) {
			u.cmd.PrintErrln("parley: warning: the toolset of the endpoint has changed; restart parley to use it")
		}
	}, err
}

// rulesPart is the [part] of the policy and the webhooks.
func (u *upstreams) rulesPart(loaded *config.Config) (commit func(), err error) {
	set, err := u.rules.load(loaded, u.values)
	return func() {
		if u.rules.set(set) { // before the servers, which may be new
			u.host.PolicyChanged()
		}
	}, err
}

// lockPart is the [part] of the lock file.
func (u *upstreams) lockPart(*config.Config) (commit func(), err error) {
	if u.lock == nil {
		return func() {
			if path, err := lockPath("", u.files); err == nil && exists(path) {
				u.cmd.PrintErrln("parley: warning: there is a lock file " + terminal.Line(path) +
					" now; restart parley to use it")
			}
		}, nil
	}
	set, err := u.lock.prepare()
	return func() {
		set()
		u.host.ReviewAgain()
	}, err
}

// serversPart is the [part] of the servers, their logins and the credentials of their callers. When the program
// starts, the host does not exist, and entries that cannot be used are left out.
func (u *upstreams) serversPart(loaded *config.Config) (commit func(), err error) {
	set, err := u.servers(loaded)
	if err == nil {
		err = errors.Join(set.unusable.check(u.unusable), u.host.CheckServers(set.configs))
	}
	if err != nil {
		return nil, err
	}
	return func() {
		set.commit(u)
		_ = u.host.SetServers(set.configs) // they are checked; it fails if the program ends
	}, nil
}

// serverSet is what the files say about servers.
type serverSet struct {
	configs  []host.ServerConfig
	unusable unusable
	callers  map[string]*callerAuth
	logins   func()             // sets the targets of the stored logins
	notes    []func(*upstreams) // print what happens to an entry
}

// servers returns the enabled servers of the files. It changes nothing. The error is that of the user who cancels the
// question for an input, or of the stored logins.
func (u *upstreams) servers(loaded *config.Config) (*serverSet, error) {
	set := &serverSet{unusable: make(unusable), callers: make(map[string]*callerAuth)}
	for _, p := range loaded.Problems {
		set.fail(p.Name, p.Name, "", p.Err)
	}
	var targets []client.Target
	flags := make(credstore.LoginFlags)
	for i := range loaded.Servers {
		s := &loaded.Servers[i]
		if s.Disabled {
			set.notes = append(set.notes, func(u *upstreams) { u.status.Note(s.Name, "disabled") })
			continue
		}
		settings, err := u.server(s, set)
		if errors.Is(err, form.ErrInterrupted) { // the user has cancelled the question for an input
			return nil, err
		}
		if err != nil {
			set.fail(s.Original, s.Name, s.Source, err)
			continue
		}
		set.configs = append(set.configs, *settings)
		targets = append(targets, settings.Target)
		if at, ok := settings.Target.(*client.HTTPTarget); ok {
			flags[at.URL] = s.LoginSettings.Flags()
		}
	}
	var err error
	set.logins, err = u.authorizer.Prepare(u.cmd.Context(), flags, targets...)
	return set, err
}

// fail notes that an entry cannot be used, which is a server with a name.
func (set *serverSet) fail(entry, name, source string, err error) {
	set.unusable.add(entry, source, err)
	set.notes = append(set.notes, func(u *upstreams) { u.status.Failed(terminal.Line(name), err.Error()) })
}

// server returns the configuration of a server for the host.
func (u *upstreams) server(s *config.Server, set *serverSet) (*host.ServerConfig, error) {
	settings, err := dialing.SettingsOf(s, u.values)
	if err != nil {
		return nil, err
	}
	if settings.CallerHeaders != nil && u.flags != nil && u.flags.stdio {
		return nil, errors.New("callerHeaders has no effect with --stdio, because its messages have no headers; " +
			"use headers")
	}
	credentials, err := s.CallerCredentials(u.values)
	at, isURL := settings.Target.(*client.HTTPTarget)
	if err != nil || credentials == nil || !isURL || u.callers == nil {
		return settings, err
	}
	of, err := u.callers.of(s.Name, at.URL, credentials)
	if err != nil {
		return nil, err
	}
	set.callers[s.Name], settings.CallerAuth = of, of.auth
	return settings, nil
}

// commit uses the logins and credentials of the servers, and prints the entries that are not served.
func (set *serverSet) commit(u *upstreams) {
	u.unusable = set.unusable
	set.logins()
	if u.callers != nil {
		u.callers.set(set.callers)
	}
	for _, print := range set.notes {
		print(u)
	}
}

// first uses the servers of the files when the program starts, without the entries that cannot be used, and returns
// them.
func (u *upstreams) first(loaded *config.Config) ([]host.ServerConfig, error) {
	set, err := u.servers(loaded)
	if err != nil {
		return nil, err
	}
	u.reserve(loaded)
	set.commit(u)
	return set.configs, nil
}

// reserve makes room for the names of all entries in the output.
func (u *upstreams) reserve(loaded *config.Config) {
	if len(loaded.Servers) == 0 {
		u.status.Print("  %s has no servers; add servers to \"mcpServers\".\n\n", terminal.Line(loaded.Path()))
	}
	for _, p := range loaded.Problems {
		u.status.Reserve(terminal.Line(p.Name))
	}
	for i := range loaded.Servers {
		u.status.Reserve(loaded.Servers[i].Name)
	}
}

// part is a part of what the program does that the files decide, such as its policy. A part checks what the files say
// about it, and prepares everything that can fail. It changes nothing that the program uses: commit does that, and
// cannot fail. Parts are committed in their order.
type part func(loaded *config.Config) (commit func(), err error)

// prepare prepares all parts of what was loaded, and returns a function that commits them. If a part cannot be used,
// nothing is: the error has all reasons.
func prepare(loaded *config.Config, parts ...part) (commit func(), err error) {
	var commits []func()
	var errs []error
	for _, part := range parts {
		commit, err := part(loaded)
		commits, errs = append(commits, commit), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return func() {
		for _, commit := range commits {
			commit()
		}
	}, nil
}

// unusable are the reasons why entries of the files cannot be used, by the names of the entries.
type unusable map[string]error

// check returns an error if entries cannot be used that could be used before, or are new: a typing error must not end a
// server. The program has started without the entries that could not be used before.
func (now unusable) check(before unusable) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if before[name] == nil {
			errs = append(errs, now[name])
		}
	}
	return errors.Join(errs...)
}

// add adds an entry that cannot be used. The error of a file names it already; another one does not.
func (now unusable) add(name, source string, err error) {
	if source != "" {
		err = fmt.Errorf("%s: server %q: %w", source, name, err)
	}
	now[name] = err
}
