package host

import (
	"context"
	"fmt"
	"strconv"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/glob"
	"github.com/parley-mcp/parley/internal/resourceuri"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// Rules is a [Policy] that consists of rules. The first rule that matches a request decides. The zero
// value denies every request. Rules must not be changed while a Host uses them.
type Rules struct {
	Rules   []Rule
	Default Action // if no rule matches
	Version string // see Decision.Version
}

// Rule is one rule of [Rules]. It matches a request if all fields that are set match. In a pattern, *
// matches any text, also an empty one, and ? matches one character; other characters match themselves.
type Rule struct {
	Server string // pattern of the server's name in Host.Servers
	Method string // pattern of Request.Method, such as sampling/createMessage
	// Tool, Prompt and Resource are patterns of the server's own names, and of URIs. A rule with one of them matches
	// requests of that kind only. A rule with several matches each of them. URIs are compared in their normal form. A
	// URI that is not valid or has dot segments matches a pattern of a rule that allows only if both are equal, or if
	// the pattern is *; rules that deny or ask also match it decoded and without dot segments.
	Tool, Prompt, Resource string
	Scope                  string // a scope that the caller was granted
	// When, if set, must return true. If it returns an error, the request is denied, whatever the
	// action of the rule is, and later rules are not considered.
	When func(ctx context.Context, r *Request) (bool, error)
	// Fixed means that When uses neither the arguments of a request nor the scopes of its caller. See [Hider].
	Fixed bool

	Action Action
	Reason string // told to the caller; empty means a text with the number of the rule
}

// Decide implements [Policy].
func (p Rules) Decide(ctx context.Context, r *Request) (Decision, error) {
	d := Decision{Version: p.Version}
	for i := range p.Rules {
		rule := &p.Rules[i]
		if !rule.Matches(r) {
			continue
		}
		if rule.When != nil {
			match, err := rule.When(ctx, r)
			if err != nil {
				return d, fmt.Errorf("cannot evaluate rule %d: %w", i+1, err)
			}
			if !match {
				continue
			}
		}
		d.Action, d.Reason, d.Rule = rule.Action, rule.Reason, strconv.Itoa(i+1)
		if d.Reason == "" {
			d.Reason = fmt.Sprintf("rule %d of the policy", i+1)
		}
		return d, nil
	}
	d.Action, d.Reason = p.Default, "no rule of the policy matches"
	return d, nil
}

// Matches reports whether all fields but When match. It uses Action for the URIs of resources.
func (rule *Rule) Matches(r *Request) bool {
	if rule.Server != "" && !glob.Match(rule.Server, r.Server) || rule.Method != "" && !glob.Match(rule.Method, r.Method) || rule.Scope != "" && !grants(r.Caller, rule.Scope) {
		return false
	}
	if rule.Tool == "" && rule.Prompt == "" && rule.Resource == "" {
		return true
	}
	switch r.Kind {
	case KindTool:
		return rule.Tool != "" && glob.Match(rule.Tool, r.Name)
	case KindPrompt:
		return rule.Prompt != "" && glob.Match(rule.Prompt, r.Name)
	case KindResource:
		return rule.Resource != "" && rule.matchesURI(r)
	}
	return false
}

// matchesURI reports whether Resource matches the URI of a request. A completion is also about the URI that its values
// make.
func (rule *Rule) matchesURI(r *Request) bool {
	made := r.Name
	if values := map[string]string(nil); r.Method == mcp.MethodComplete && schema.Decode(r.Arguments, &values) == nil {
		made = resourceuri.Expand(r.Name, values)
	}
	if rule.Action == Allow {
		return resourceuri.Grants(rule.Resource, r.Name) && (made == r.Name || rule.Resource == "*" || !resourceuri.HasDots(made))
	}
	return resourceuri.Restricts(rule.Resource, r.Name) || resourceuri.Restricts(rule.Resource, made)
}

func grants(caller *auth.Info, scope string) bool { return caller != nil && caller.Grants(scope) }
