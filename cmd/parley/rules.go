package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/form"
	"github.com/parley-mcp/parley/cmd/parley/internal/policy"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/webhook"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/loglimit"
	"github.com/parley-mcp/parley/principal"
)

// maxApprovalTimeout limits the time for an approval that a policy can set.
const maxApprovalTimeout = time.Hour

// rules are the policy and the webhooks of the configuration files. They change when a file changes.
type rules struct {
	current atomic.Pointer[ruleSet]
	client  *webhook.Client
	user    *userApprover // nil without a terminal

	logger   *slog.Logger
	failures loglimit.Limiter // of webhooks
}

// ruleSet is the content of the files at one time. It is immutable.
type ruleSet struct {
	policy  *host.Rules // nil allows all
	timeout time.Duration
	hooks   []webhook.Hook
}

func newRules(cmd *cobra.Command) *rules {
	r := &rules{client: webhook.NewClient(), logger: newLogger(cmd.ErrOrStderr(), slog.LevelWarn)}
	r.current.Store(&ruleSet{})
	if terminal.Is(cmd.InOrStdin()) && terminal.Is(cmd.ErrOrStderr()) {
		r.user = &userApprover{screen: &form.Screen{In: cmd.InOrStdin(), Out: cmd.ErrOrStderr()}, turn: make(chan struct{}, 1)}
	}
	return r
}

// load returns the policy and the webhooks of files; see set.
func (r *rules) load(loaded *config.Config, values *config.Values) (*ruleSet, error) {
	set := new(ruleSet)
	if p := loaded.Policy; p != nil {
		compiled, err := compilePolicy(p)
		if err != nil {
			return nil, err
		}
		set.policy, set.timeout = &compiled, p.ApprovalTimeout
	}
	for i := range loaded.Hooks {
		hook, err := expandHook(&loaded.Hooks[i], values)
		if err != nil {
			return nil, err
		}
		set.hooks = append(set.hooks, hook)
	}
	return set, nil
}

func compilePolicy(p *config.Policy) (host.Rules, error) {
	if p.ApprovalTimeout > maxApprovalTimeout {
		return host.Rules{}, fmt.Errorf("%s: policy.approvalTimeout must not exceed %v", p.Source, maxApprovalTimeout)
	}
	return policy.Compile(p)
}

func expandHook(h *config.Hook, values *config.Values) (webhook.Hook, error) {
	url, headers, err := h.Expand(values)
	if err != nil {
		return webhook.Hook{}, err
	}
	hook := webhook.Hook{URL: url, Header: make(http.Header), Timeout: h.Timeout, OnRequest: h.Request, OnResponse: h.Response}
	for _, p := range headers {
		hook.Header.Add(p.Name, p.Value)
	}
	if err := hook.Check(); err != nil {
		return webhook.Hook{}, fmt.Errorf("%s: %w", h.Source, err)
	}
	rule := host.Rule{Server: h.Server, Tool: h.Tool}
	hook.Matches = rule.Matches
	return hook, nil
}

// set replaces the rules. It reports whether the policy has another version.
func (r *rules) set(now *ruleSet) (changed bool) {
	before := r.current.Swap(now)
	return before.version() != now.version()
}

// version returns the version of the policy, or "" if there is none.
func (s *ruleSet) version() string {
	if s.policy == nil {
		return ""
	}
	return s.policy.Version
}

// apply sets the fields of a host.
func (r *rules) apply(h *host.Host) {
	h.Policy, h.Approve, h.ApprovalTimeout = r, r.approve, maxApprovalTimeout
	h.Hooks = []host.Hook{{Request: r.request, Response: r.response}}
}

// Decide implements host.Policy.
func (r *rules) Decide(ctx context.Context, request *host.Request) (host.Decision, error) {
	if p := r.current.Load().policy; p != nil {
		return p.Decide(ctx, request)
	}
	return host.Decision{Action: host.Allow}, nil
}

// Hides implements host.Hider.
func (r *rules) Hides(caller principal.Principal) func(*host.Request) bool {
	if p := r.current.Load().policy; p != nil {
		return p.Hides(caller)
	}
	return nil
}

func (r *rules) request(ctx context.Context, request *host.Request) error {
	hooks := r.current.Load().hooks
	for i := range hooks {
		if err := r.client.Request(ctx, &hooks[i], request); err != nil {
			return r.failed(ctx, err)
		}
	}
	return nil
}

func (r *rules) response(ctx context.Context, request *host.Request, result json.RawMessage) (_ json.RawMessage, err error) {
	hooks := r.current.Load().hooks
	for i := range hooks {
		if result, err = r.client.Response(ctx, &hooks[i], request, result); err != nil {
			return nil, r.failed(ctx, err)
		}
	}
	return result, nil
}

// failed returns the error of a webhook for a caller: the webhook's reason, or that the webhook has failed, which
// it logs.
func (r *rules) failed(ctx context.Context, err error) error {
	if errors.As(err, new(*webhook.DeniedError)) {
		return err
	}
	r.failures.Log(ctx, r.logger, slog.LevelWarn, "a webhook has failed", slog.Any("error", err))
	return errors.New("cannot get the decision of a webhook")
}

// defaultApprovalTimeout is the time for an approval if the policy sets none.
const defaultApprovalTimeout = 5 * time.Minute

// approve asks the user of the client and, if that is impossible, the user at the terminal.
func (r *rules) approve(ctx context.Context, a *host.Approval) error {
	limited := *a
	if limited.Timeout = r.current.Load().timeout; limited.Timeout == 0 {
		limited.Timeout = defaultApprovalTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limited.Timeout)
	defer cancel()
	err := gateway.Approve(ctx, &limited)
	if !errors.Is(err, gateway.ErrCannotAsk) || r.user == nil {
		return err
	}
	return r.user.approve(ctx, &limited)
}

// userApprover asks the user at the terminal, one question at a time.
type userApprover struct {
	screen *form.Screen
	turn   chan struct{} // capacity 1: held while a question is shown
}

const (
	denyText  = "No"
	allowText = "Yes, once"
)

func (u *userApprover) approve(ctx context.Context, a *host.Approval) error {
	select {
	case u.turn <- struct{}{}:
		defer func() { <-u.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	fmt.Fprintf(u.screen.Out, "\n%s\n\n", terminal.Block(a.Question()))
	chosen, answered, err := u.screen.Choose(ctx, "Allow the request?", []string{denyText, allowText}, denyText)
	switch {
	case err != nil:
		return err
	case !answered || chosen != allowText:
		return host.ErrDeclined
	}
	return nil
}
