package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/glob"
	"github.com/parley-mcp/parley/internal/resourceuri"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// Policy decides which requests a [Host] sends to its servers, and which of their requests it answers. [Rules] is a
// Policy made of rules. Decide must be safe for concurrent use and must not block. An error or a panic denies the
// request.
//
// A Policy may also be a [Hider], as Rules is.
type Policy interface {
	Decide(ctx context.Context, r *Request) (Decision, error)
}

// Action is what a [Policy] decides. The zero value is Deny.
type Action int

// The actions of a policy.
const (
	// Deny rejects the request.
	Deny Action = iota
	// Ask sends or answers the request only if [Host.Approve] approves it. Completions and subscriptions
	// are rejected, because a user cannot be asked at each key. An elicitation is allowed, because
	// its user can decline it.
	Ask
	// Allow sends or answers the request.
	Allow
)

// String returns the action in lower case, such as "deny".
func (a Action) String() string {
	switch a {
	case Allow:
		return "allow"
	case Ask:
		return "ask"
	}
	return "deny"
}

// Decision is the decision of a [Policy] about one request.
type Decision struct {
	Action  Action
	Reason  string // shown to the caller and in the audit log, such as the rule that decided
	Version string // version of the policy; an approval under one version does not count under another
	Rule    string // identifies the rule that decided; an approval for a session does not count for another rule
	// Claims names the caller's claims that led to the decision, and Group is the group that matched, for the audit
	// log. They are empty if the rule uses none.
	Claims []string
	Group  string
}

// Kind is what a [Request] or a [Definition] is about.
type Kind string

// The kinds of a Request and a Definition.
const (
	KindTool         Kind = "tool"
	KindPrompt       Kind = "prompt"
	KindResource     Kind = "resource"     // or a resource template
	KindInstructions Kind = "instructions" // only of a Definition
	KindSkill        Kind = "skill"        // only of a Definition, from a gateway
	KindExtension    Kind = "extension"
	// Requests of servers:
	KindElicitation Kind = "elicitation"
	KindSampling    Kind = "sampling"
	KindRoots       Kind = "roots"
)

// Request is a caller's request that a [Host] is about to send to a server, or a server's request, for a caller, that
// the Host is about to answer.
type Request struct {
	// Method is tools/call, prompts/get, resources/read, completion/complete, resources/subscribe or a method of an
	// extension. For a request of a server, it is elicitation/create, sampling/createMessage or roots/list.
	Method string
	// Server is the name of the server in Host.Servers.
	Server string
	// Kind is KindTool, KindPrompt, KindResource or KindExtension, and for a request of a server KindElicitation,
	// KindSampling or KindRoots.
	Kind Kind
	// Name is the server's own name of the tool or prompt, a URI or URI template, or the ID of the extension. It is
	// empty for requests of a server.
	Name string
	// Tool is the definition of the tool as the server lists it; nil if it does not list it, and
	// for other kinds. Annotations is nil unless the server is trusted; see
	// [ServerConfig.Trusted]. It must not be modified.
	Tool *mcp.Tool
	// Arguments is a JSON object with the arguments of the tool or prompt, the arguments that are known in a
	// completion, or the parameters of an extension's method without _meta. It is nil for resources. For a request of a
	// server, it contains the params of the request without _meta and task; for an elicitation, always with the field
	// mode.
	Arguments json.RawMessage
	// Caller contains the principal and the scopes of the caller. It is never nil, and must not be modified. A program
	// that uses the Host outside of a server's handler is anonymous, and so is the caller of a server's request that
	// belongs to no call.
	Caller *auth.Info
}

// ofServer reports whether a server has sent the request.
func (r *Request) ofServer() bool {
	return r.Kind == KindElicitation || r.Kind == KindSampling || r.Kind == KindRoots
}

// text names the request without its arguments, such as `tools/call read_file of server "files"`.
func (r *Request) text() string {
	if r.Name == "" {
		return fmt.Sprintf("%s of server %q", r.Method, r.Server)
	}
	return fmt.Sprintf("%s %.200s of server %q", r.Method, r.Name, r.Server)
}

// DeniedError reports that a [Host] did not send a request, or did not return its result: the policy
// denies it, it was not approved, a hook rejects it, or it cannot be recorded.
type DeniedError struct {
	Reason  string
	request *Request
	err     error // cause; may be nil
}

// Error names the request and the reason.
func (e *DeniedError) Error() string {
	text := e.request.text() + " is denied: " + e.Reason
	if e.err != nil {
		text += ": " + e.err.Error()
	}
	return text
}

// Unwrap returns the cause, or nil.
func (e *DeniedError) Unwrap() error { return e.err }

// denied returns the error for a request.
func (r *Request) denied(reason string, err error) *DeniedError {
	return &DeniedError{request: r, Reason: reason, err: err}
}

// decide asks the policy. If it returns an error, the request is denied.
func (h *Host) decide(ctx context.Context, r *Request) (d Decision, err error) {
	if h.Policy == nil {
		return Decision{Action: Allow}, nil
	}
	err = h.contain("Policy", func() (err error) {
		d, err = h.Policy.Decide(ctx, r)
		return err
	})
	if err != nil {
		d.Action, d.Reason = Deny, "the policy cannot decide"
		return d, r.denied(d.Reason, err)
	}
	if d.Action != Allow && d.Action != Ask {
		d.Action = Deny
		if d.Reason == "" {
			d.Reason = "the policy does not allow it"
		}
		return d, r.denied(d.Reason, nil)
	}
	return d, nil
}

// errPanic is the error of a function of the program that panicked. The value of the panic appears only in the
// log, because the error can reach a caller.
var errPanic = errors.New("internal error")

// contain calls f, a function of the program, and returns errPanic if it panics.
func (h *Host) contain(name string, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			h.logger().Error("a function of the program panicked", "function", name, "panic", v, "stack",
				string(debug.Stack()))
			err = errPanic
		}
	}()
	return f()
}

// Rules is a [Policy] that consists of rules. The first rule that matches a request decides. The zero value denies
// every request. Rules must not be changed while a Host uses them.
type Rules struct {
	Rules   []Rule
	Default Action // if no rule matches
	Version string // see Decision.Version
	// GroupsFrom names the claims that contain the groups of a caller; the first claim in the token counts. Its value
	// is a string, an array of strings, or an object with the groups as keys. See auth.Info.Claim for the names of
	// nested claims. Nil means "groups" and "roles".
	GroupsFrom []string
}

// Rule is one rule of [Rules]. It matches a request if all fields that are set match. In a pattern, * matches any text,
// even an empty one, and ? matches one character; other characters match themselves.
type Rule struct {
	Server string // pattern of the server's name in Host.Servers
	Method string // pattern of Request.Method, such as sampling/createMessage
	// Tool, Prompt and Resource are patterns of the server's own names, and of URIs. A rule with one of them matches
	// only requests of that kind; a rule with several matches requests of each. URIs are compared in their normal form.
	// A URI that is not valid or has dot segments matches a pattern of a rule that allows only if both are equal, or if
	// the pattern is *; rules that deny or ask also match it decoded and without dot segments.
	Tool, Prompt, Resource string
	Scope                  string // a scope that the caller was granted
	// Groups are patterns: the caller must be in a group that matches one. If the groups of an authenticated caller are
	// not known, the request is denied, as with an error of When.
	Groups []string
	// When, if set, must return true. If it returns an error, the request is denied, whatever the
	// action of the rule is, and later rules are not considered.
	When func(ctx context.Context, r *Request) (bool, error)
	// WhenForLists says that When can also decide what lists contain, because it uses neither the arguments of a
	// request nor the scopes and claims of its caller. See [Rules.Hides].
	WhenForLists bool
	// Claims are the names of the claims that When uses, for Decision.Claims.
	Claims []string

	Action Action
	Reason string // told to the caller; empty means a text with the number of the rule
}

// Decide implements [Policy].
func (p Rules) Decide(ctx context.Context, r *Request) (Decision, error) {
	d := Decision{Version: p.Version}
	for i := range p.Rules {
		rule := &p.Rules[i]
		if !rule.matches(r) {
			continue
		}
		var group groupMatch
		if rule.Groups != nil {
			var err error
			if group, err = p.groupOf(r.Caller, rule.Groups); err != nil {
				return d, fmt.Errorf("cannot evaluate rule %d: %w", i+1, err)
			}
			if group.name == "" {
				continue
			}
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
		d.Group, d.Claims = group.name, rule.Claims
		if group.claim != "" {
			d.Claims = append([]string{group.claim}, rule.Claims...)
		}
		if d.Reason == "" {
			d.Reason = fmt.Sprintf("rule %d of the policy", i+1)
		}
		return d, nil
	}
	d.Action, d.Reason = p.Default, "no rule of the policy matches"
	return d, nil
}

// groupMatch is a group that matches a pattern, and the claim that contains it; both are empty if there is
// none.
type groupMatch struct{ name, claim string }

// groupOf returns the first group of a caller that matches one of the patterns.
func (p *Rules) groupOf(caller *auth.Info, patterns []string) (groupMatch, error) {
	groups, claim, err := p.groupsOf(caller)
	for _, group := range groups {
		if group != "" && glob.Any(patterns, group) {
			return groupMatch{group, claim}, nil
		}
	}
	return groupMatch{}, err
}

// groupsOf returns the groups of a caller, and the claim that contains them.
func (p *Rules) groupsOf(caller *auth.Info) (groups []string, claim string, err error) {
	if caller == nil || caller.Claims == nil {
		if caller == nil || caller.Principal.Issuer() == "" { // nobody has authenticated the caller
			return nil, "", nil
		}
		return nil, "", errors.New("the claims of the caller are not known here, and so neither are the groups; " +
			"call again, or set the Claims of auth.Info")
	}
	names := p.GroupsFrom
	if names == nil {
		names = []string{"groups", "roles"}
	}
	// Claims that do not fit into the token are distributed (OpenID Connect Core, section 5.6.2).
	elsewhere, _ := caller.Claim("_claim_names")
	for _, name := range names {
		value, ok := caller.Claim(name)
		_, tooLarge := jsonrpc.Get(elsewhere, name)
		switch {
		case ok && string(value) != "null":
			groups, err = textsOf(value)
			if err != nil {
				err = fmt.Errorf("the claim %q of the caller %w", name, err)
			}
			return groups, name, err
		case tooLarge:
			return nil, "", fmt.Errorf("the token of the caller leaves out the claim %q, because the caller is in too "+
				"many groups; let the issuer add only the groups that are needed here", name)
		}
	}
	return nil, "", nil
}

// textsOf returns the texts in the value of a claim.
func textsOf(value json.RawMessage) (texts []string, err error) {
	switch value[0] {
	case '"':
		return []string{jsonrpc.Unquote(value)}, nil
	case '{':
		for name := range jsonrpc.All(value) {
			texts = append(texts, name)
		}
		return texts, nil
	case '[':
		var elements []json.RawMessage
		if err = schema.Decode(value, &elements); err != nil {
			break
		}
		for _, element := range elements {
			if element[0] != '"' {
				return nil, errNoTexts
			}
			texts = append(texts, jsonrpc.Unquote(element))
		}
		return texts, nil
	}
	return nil, errNoTexts
}

var errNoTexts = errors.New("must be a text, an array of texts or an object")

// matches reports whether all fields but Groups and When match. It uses Action for the URIs of resources.
func (rule *Rule) matches(r *Request) bool {
	if rule.Server != "" && !glob.Match(rule.Server, r.Server) ||
		rule.Method != "" && !glob.Match(rule.Method, r.Method) || rule.Scope != "" && !grants(r.Caller, rule.Scope) {
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

// matchesURI reports whether Resource matches the URI of a request. For a completion, it also checks the URI that
// results from its values.
func (rule *Rule) matchesURI(r *Request) bool {
	made := r.Name
	if values := map[string]string(nil); r.Method == mcp.MethodComplete && schema.Decode(r.Arguments, &values) == nil {
		made = resourceuri.Expand(r.Name, values)
	}
	if rule.Action == Allow {
		return resourceuri.Grants(rule.Resource, r.Name) &&
			(made == r.Name || rule.Resource == "*" || !resourceuri.HasDots(made))
	}
	return resourceuri.Restricts(rule.Resource, r.Name) || resourceuri.Restricts(rule.Resource, made)
}

func grants(caller *auth.Info, scope string) bool { return caller != nil && caller.Grants(scope) }
