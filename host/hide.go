package host

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/principal"
)

// Hider is a [Policy] that knows which requests it denies regardless of their arguments and of the caller's scopes.
// Gateways hide tools, prompts and resources from callers who cannot use them. Hides returns a function for one caller,
// or nil if nothing is always denied. Both functions must be safe for concurrent use and must not block.
type Hider interface {
	Policy
	Hides(caller principal.Principal) func(r *Request) bool
}

// Hides returns a function that reports whether the rules deny a request of the caller whatever its arguments, or nil
// if they deny none of them. r contains no arguments. Both functions are safe for concurrent use and do not block. A
// rule with a scope or groups, or with a When without WhenForLists, counts as one that may or may not match.
func (p Rules) Hides(principal.Principal) func(r *Request) bool {
	if p.Default != Deny && !slices.ContainsFunc(p.Rules, func(rule Rule) bool { return rule.Action == Deny }) {
		return nil
	}
	return p.hides
}

func (p Rules) hides(r *Request) bool {
	for i := range p.Rules {
		rule := p.Rules[i]
		unknown := rule.Scope != "" || rule.Groups != nil || rule.When != nil && !rule.WhenForLists
		rule.Scope = ""
		switch {
		case !rule.matches(r):
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

// Hides returns a function that reports whether the policy denies every request of a caller for a tool, prompt or
// resource, whatever the arguments and the caller's scopes. It returns nil if nothing is always denied, or if the
// policy cannot tell. The function ignores Arguments and Caller of the request.
func (h *Host) Hides(caller principal.Principal) func(r *Request) bool {
	policy, ok := h.Policy.(Hider)
	if !ok {
		return nil
	}
	var hides func(*Request) bool
	if h.contain("Policy", func() error { hides = policy.Hides(caller); return nil }) != nil {
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

// PolicyChanged tells the Host that the policy may decide differently now. It ends calls of [Client.Subscribe] that are
// denied now. Gateways notify their clients that lists may have changed, and end subscriptions that are denied.
func (h *Host) PolicyChanged() {
	for _, s := range h.all() {
		s.approvals.forget()
	}
	h.policies.notify()
}

// PolicyChanges returns a channel that the next call of PolicyChanged closes.
func (h *Host) PolicyChanges() <-chan struct{} { return h.policies.wait() }
