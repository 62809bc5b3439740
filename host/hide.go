package host

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/principal"
)

// Hider is a [Policy] that can tell which requests it denies whatever their arguments and the scopes of the caller are.
// Gateways hide tools, prompts and resources from the callers who cannot use them.
type Hider interface {
	Policy
	// Hides returns a function that reports whether all such requests of a caller are denied, or nil if none are. The
	// request has no arguments. Both must be safe for concurrent use and must not block.
	Hides(caller principal.Principal) func(r *Request) bool
}

// Hides implements [Hider]. A rule with a scope, or with a condition that is not Fixed, may match or not.
func (p Rules) Hides(principal.Principal) func(r *Request) bool {
	if p.Default != Deny && !slices.ContainsFunc(p.Rules, func(rule Rule) bool { return rule.Action == Deny }) {
		return nil
	}
	return p.hides
}

func (p Rules) hides(r *Request) bool {
	for i := range p.Rules {
		rule := p.Rules[i]
		unknown := rule.Scope != "" || rule.When != nil && !rule.Fixed
		rule.Scope = ""
		switch {
		case !rule.Matches(r):
			continue
		case unknown && rule.Action == Deny: // another rule may allow the request
			continue
		case unknown:
			return false
		case rule.When != nil:
			if match, err := rule.When(context.Background(), r); err == nil && !match {
				continue
			} else if err != nil {
				return true // see Decide
			}
		}
		return rule.Action == Deny
	}
	return p.Default == Deny
}

// hides returns a function that reports whether the policy denies all requests of a caller for a tool, prompt or resource,
// whatever their arguments and the scopes of the caller are. It returns nil if nothing is denied so, or if the
// policy is not a [Hider]. The function does not use Arguments and Caller of the request.
func (h *Host) hides(caller principal.Principal) func(r *Request) bool {
	hider, ok := h.Policy.(Hider)
	if !ok {
		return nil
	}
	var hides func(*Request) bool
	if h.contain("Policy", func() error { hides = hider.Hides(caller); return nil }) != nil {
		return func(*Request) bool { return true }
	}
	if hides == nil {
		return nil
	}
	info := &auth.Info{Principal: caller}
	return func(r *Request) (hidden bool) {
		asked := *r
		asked.Caller = info
		if asked.Kind != KindResource {
			asked.Arguments = json.RawMessage("{}")
		}
		if s := h.find(r.Server); s != nil && r.Tool != nil {
			asked.Tool = s.trusted(r.Tool)
		}
		return h.contain("Policy", func() error { hidden = hides(&asked); return nil }) != nil || hidden
	}
}

// PolicyChanged announces that the policy may decide otherwise now. Calls of [Host.Subscribe] that it denies end, and gateways
// notify their clients that the lists may have changed, and end subscriptions that it denies.
func (h *Host) PolicyChanged() {
	for _, s := range h.all() {
		s.approvals.forget()
	}
	h.policies.notify()
}

// policyChanges returns a channel that the next call of PolicyChanged closes.
func (h *Host) policyChanges() <-chan struct{} { return h.policies.wait() }
