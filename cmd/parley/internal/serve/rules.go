package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/serve/policy"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/form"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/loglimit"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// rules are the policy and the webhooks of the configuration files. They change when a file changes.
type rules struct {
	current atomic.Pointer[ruleSet]
	client  *policy.HookClient
	user    *userApprover // nil without a terminal

	logger   *slog.Logger
	failures loglimit.Limiter // of webhooks
}

// ruleSet is the content of the files at one time. It is immutable, except for printed.
type ruleSet struct {
	policies []scopedPolicy // none allows all
	hooks    []policy.Hook
	names    map[string]string // of servers as they are written, by their names in the host; those that differ only
	printed  sync.Map          // the texts of unknownTools that the user has seen
}

// scopedPolicy is a policy that decides about all servers but some.
type scopedPolicy struct {
	host.Rules
	timeout time.Duration // for an approval; 0 means the default
	except  []string
}

func newRules(cmd *cobra.Command) *rules {
	r := &rules{client: policy.NewHookClient(), logger: program.NewLogger(cmd.ErrOrStderr(), slog.LevelWarn)}
	r.current.Store(&ruleSet{})
	if form.Interactive(cmd) {
		r.user = &userApprover{screen: form.ScreenOf(cmd), turn: make(chan struct{}, 1)}
	}
	return r
}

// load returns the policy and the webhooks of files; see set.
func (r *rules) load(loaded *config.Config, values *config.Values) (*ruleSet, error) {
	set := &ruleSet{names: loaded.Written()}
	for _, p := range loaded.Policies {
		compiled, err := policy.Compile(p)
		if err != nil {
			return nil, err
		}
		set.policies = append(set.policies, scopedPolicy{compiled, p.ApprovalTimeout, p.Except})
	}
	for i := range loaded.Hooks {
		hook, err := policy.ExpandHook(&loaded.Hooks[i], values)
		if err != nil {
			return nil, err
		}
		set.hooks = append(set.hooks, hook)
	}
	return set, nil
}

// set replaces the rules. It reports whether a policy has another version, or may decide about other servers.
func (r *rules) set(now *ruleSet) (changed bool) {
	before := r.current.Swap(now)
	sameServers := func(a, b scopedPolicy) bool { return slices.Equal(a.except, b.except) }
	return before.version() != now.version() || !maps.Equal(before.names, now.names) ||
		!slices.EqualFunc(before.policies, now.policies, sameServers)
}

// version returns the versions of the policies, or "" if there are none.
func (s *ruleSet) version() string {
	var versions []string
	for i := range s.policies {
		versions = append(versions, s.policies[i].Version)
	}
	return strings.Join(versions, "+")
}

// written returns the name of a server as it is written in its file.
func (s *ruleSet) written(server string) string { return cmp.Or(s.names[server], server) }

// asWritten returns a request with the name of its server as it is written in its file: rules and webhooks use it.
func (s *ruleSet) asWritten(r *host.Request) *host.Request {
	asked := *r
	asked.Server = s.written(r.Server)
	return &asked
}

// covering returns the policies that decide about a server, by its written name. They decide about a server that is in
// no file, because it was removed during the request.
func (s *ruleSet) covering(server string) (covering []*scopedPolicy) {
	for i := range s.policies {
		if p := &s.policies[i]; !slices.Contains(p.except, server) {
			covering = append(covering, p)
		}
	}
	return covering
}

// decide returns the strictest decision of the policies.
func (s *ruleSet) decide(ctx context.Context, request *host.Request) (host.Decision, error) {
	r := s.asWritten(request)
	strictest := host.Decision{Action: host.Allow}
	for i, p := range s.covering(r.Server) {
		d, err := p.Decide(ctx, r)
		d.Rule = p.Version + "/" + d.Rule // the rule of a session's approval
		switch {
		case err != nil, i == 0, d.Action < strictest.Action:
			strictest = d
		case d.Action == host.Ask && strictest.Action == host.Ask:
			strictest.Reason += "; " + d.Reason
			strictest.Rule += " " + d.Rule
			strictest.Claims = slices.Concat(strictest.Claims, d.Claims)
			strictest.Group = cmp.Or(strictest.Group, d.Group)
		}
		if err != nil {
			strictest.Version = s.version()
			return strictest, err
		}
	}
	strictest.Version = s.version()
	return strictest, nil
}

// unknownTools describes the rules that name a tool of a server that does not offer it: they decide nothing. Rules with
// patterns may match nothing.
func (s *ruleSet) unknownTools(status *host.ServerStatus) (found []string) {
	server := s.written(status.Name)
	if len(status.Tools) == 0 {
		return nil
	}
	for _, p := range s.covering(server) {
		for i := range p.Rules.Rules {
			rule := &p.Rules.Rules[i]
			offered := slices.ContainsFunc(status.Tools,
				func(t host.Tool) bool { return t.Definition.Name == rule.Tool })
			if rule.Server == server && rule.Tool != "" && !strings.ContainsAny(rule.Tool, "*?") && !offered {
				found = append(found,
					fmt.Sprintf("rule %d of the policy names the tool %q, which server %q does not offer; "+
						"correct or remove it", i+1, rule.Tool, server))
			}
		}
	}
	return found
}

// timeoutFor returns the time for an approval of a request to a server.
func (s *ruleSet) timeoutFor(server string) time.Duration {
	timeout := time.Duration(0)
	for _, p := range s.covering(s.written(server)) {
		if p.timeout > 0 && (timeout == 0 || p.timeout < timeout) {
			timeout = p.timeout
		}
	}
	return cmp.Or(timeout, defaultApprovalTimeout)
}

// apply sets the fields of a host.
func (r *rules) apply(h *host.Host) {
	h.Policy, h.Approve = r, r.approve
	h.ApprovalTimeout = policy.MaxApprovalTimeout
	h.OnRequest, h.OnResult = r.request, r.response
}

// Decide implements host.Policy.
func (r *rules) Decide(ctx context.Context, request *host.Request) (host.Decision, error) {
	return r.current.Load().decide(ctx, request)
}

var _ host.Hider = (*rules)(nil)

// Hides implements host.Hider.
func (r *rules) Hides(caller principal.Principal) func(*host.Request) bool {
	set := r.current.Load()
	hides := make(map[*scopedPolicy]func(*host.Request) bool)
	for i := range set.policies {
		if f := set.policies[i].Hides(caller); f != nil {
			hides[&set.policies[i]] = f
		}
	}
	if len(hides) == 0 {
		return nil
	}
	return func(request *host.Request) bool {
		asked := set.asWritten(request)
		return slices.ContainsFunc(set.covering(asked.Server),
			func(p *scopedPolicy) bool { return hides[p] != nil && hides[p](asked) })
	}
}

func (r *rules) request(ctx context.Context, request *host.Request) error {
	set := r.current.Load()
	asked := set.asWritten(request)
	for i := range set.hooks {
		if err := r.client.Request(ctx, &set.hooks[i], asked); err != nil {
			return r.failed(ctx, err)
		}
	}
	request.Arguments = asked.Arguments
	return nil
}

func (r *rules) response(ctx context.Context, request *host.Request, result json.RawMessage) (_ json.RawMessage,
	err error) {
	set := r.current.Load()
	asked := set.asWritten(request)
	for i := range set.hooks {
		if result, err = r.client.Response(ctx, &set.hooks[i], asked, result); err != nil {
			return nil, r.failed(ctx, err)
		}
	}
	return result, nil
}

// failed returns the error of a webhook for a caller: the webhook's reason, or that the webhook has failed, which
// it logs.
func (r *rules) failed(ctx context.Context, err error) error {
	if errors.As(err, new(*policy.DeniedError)) {
		return err
	}
	r.failures.Log(ctx, r.logger, slog.LevelWarn, "a webhook failed", slog.Any("error", err))
	return errors.New("cannot get the decision of a webhook")
}

// defaultApprovalTimeout is the time for an approval if the policy sets none.
const defaultApprovalTimeout = 5 * time.Minute

// approve asks the user of the client and, if that is impossible, the user at the terminal.
func (r *rules) approve(ctx context.Context, a *host.Approval) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, r.current.Load().timeoutFor(a.Request.Server))
	defer cancel()
	approved, err := gateway.Approve(ctx, a)
	if !errors.Is(err, server.ErrCannotAsk) || r.user == nil {
		return approved, err
	}
	return r.user.approve(ctx, a)
}

// userApprover asks the user at the terminal, one question at a time.
type userApprover struct {
	screen *form.Screen
	turn   chan struct{} // capacity 1: held while a question is shown
}

// approve prints what the arguments and the reason are, and asks below them, so that the question is on the screen also
// if the arguments are long.
func (u *userApprover) approve(ctx context.Context, a *host.Approval) (bool, error) {
	select {
	case u.turn <- struct{}{}:
		defer func() { <-u.turn }()
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	once, session, decline := a.Answers()
	question, details, _ := strings.Cut(a.Question(), "\n\n")
	answers := slices.DeleteFunc([]string{decline, once, session}, func(text string) bool { return text == "" })
	fmt.Fprintf(u.screen.Out, "\n%s\n\n", terminal.Block(details))
	chosen, err := u.screen.Choose(ctx, terminal.Line(question), answers, decline)
	switch {
	case err != nil && !errors.Is(err, form.ErrInterrupted):
		return false, err
	case err == nil && chosen == session:
		a.AllowSession()
		return true, nil
	}
	return err == nil && chosen == once, nil
}

// guardFlags are the flags of parley up for the lock file and the audit log.
type guardFlags struct {
	lock  string
	audit auditFlags
}

func (f *guardFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.lock, "lock", "",
		"lock `file` (default mcp.lock next to a configuration file, if it exists)")
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
		h.Audit, h.AuditValues = u.audit, u.audit.flags.values
	}
}
