package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tailscale/hujson"

	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/glob"
)

// Policy is the policy of a file. Its conditions are not compiled.
type Policy struct {
	Version string // a digest of the policy if the file has none
	Default host.Action
	Rules   []Rule
	// ApprovalTimeout limits the time for an approval; 0 if the file does not set it.
	ApprovalTimeout time.Duration
	Source          string // the file and line
	// Except are the names of the servers about which the policy does not decide, as they are written: those of other
	// files.
	Except []string
}

// Rule is one rule of a policy.
type Rule struct {
	host.Rule        // without When
	When      string // a condition, or empty
	Source    string // the file and line
}

// versionLength is the length of the version of a policy that has none.
const versionLength = 12

func (d *document) policy(v *hujson.Value) (*Policy, error) {
	p := &Policy{Version: digest.Of(v.String())[:versionLength], Source: d.at(v)}
	err := readOwn(d, p, policyMembers, v, "policy", ".")
	if err == nil && !has(v, "default") {
		err = d.errorf(v, "policy: %q is missing; set it to %q, %q or %q for requests that no rule matches",
			"default", "deny", "ask", "allow")
	}
	return p, err
}

var policyMembers = readers[Policy]{
	"version": func(d *document, p *Policy, v *hujson.Value, name string) (err error) {
		p.Version, _, err = d.scalar(v, name)
		return err
	},
	"default": func(d *document, p *Policy, v *hujson.Value, name string) (err error) {
		p.Default, err = d.action(v, name)
		return err
	},
	"approvalTimeout": func(d *document, p *Policy, v *hujson.Value, name string) (err error) {
		p.ApprovalTimeout, err = d.duration(v, name)
		return err
	},
	"rules": func(d *document, p *Policy, v *hujson.Value, name string) (err error) {
		p.Rules, err = d.rules(v, name)
		return err
	},
}

func (d *document) rules(v *hujson.Value, what string) (rules []Rule, err error) {
	array, ok := v.Value.(*hujson.Array)
	if !ok {
		return nil, d.errorf(v, "%s must be an array of objects", what)
	}
	for i := range array.Elements {
		rule, err := d.rule(&array.Elements[i], fmt.Sprintf("%s[%d]", what, i))
		if err != nil {
			return nil, err
		}
		rules = append(rules, *rule)
	}
	return rules, nil
}

func (d *document) rule(v *hujson.Value, what string) (*Rule, error) {
	rule := &Rule{Source: d.at(v)}
	err := readOwn(d, rule, ruleMembers, v, what, ".")
	if err == nil && !has(v, "action") {
		err = d.errorf(v, `%s: "action" is missing; set it to "allow", "ask" or "deny"`, what)
	}
	return rule, err
}

var ruleMembers = readers[Rule]{
	"server":   ruleText(func(r *Rule) *string { return &r.Server }),
	"method":   ruleText(func(r *Rule) *string { return &r.Method }),
	"tool":     ruleText(func(r *Rule) *string { return &r.Tool }),
	"prompt":   ruleText(func(r *Rule) *string { return &r.Prompt }),
	"resource": ruleText(func(r *Rule) *string { return &r.Resource }),
	"scope":    ruleText(func(r *Rule) *string { return &r.Scope }),
	"when":     ruleText(func(r *Rule) *string { return &r.When }),
	"reason":   ruleText(func(r *Rule) *string { return &r.Reason }),
	"action": func(d *document, r *Rule, v *hujson.Value, name string) (err error) {
		r.Action, err = d.action(v, name)
		return err
	},
}

// ruleText reads a member of a rule that must not be empty.
func ruleText(field func(*Rule) *string) func(*document, *Rule, *hujson.Value, string) error {
	return func(d *document, r *Rule, v *hujson.Value, name string) error {
		text, err := d.text(v, name)
		if err == nil && text == "" {
			err = d.errorf(v, "%s must not be empty", name)
		}
		*field(r) = text
		return err
	}
}

func (d *document) action(v *hujson.Value, what string) (host.Action, error) {
	text, err := d.text(v, what)
	if err != nil {
		return host.Deny, err
	}
	actions := []host.Action{host.Allow, host.Ask, host.Deny}
	at := slices.IndexFunc(actions, func(a host.Action) bool { return a.String() == text })
	if at < 0 {
		return host.Deny, d.errorf(v, `%s must be "allow", "ask" or "deny", not %q`, what, text)
	}
	return actions[at], nil
}

// duration reads a positive duration, such as "90s".
func (d *document) duration(v *hujson.Value, what string) (time.Duration, error) {
	text, err := d.text(v, what)
	if err != nil {
		return 0, err
	}
	duration, err := time.ParseDuration(text)
	if err != nil || duration <= 0 {
		return 0, d.errorf(v, `%s must be a positive duration such as "90s" or "5m", not %q`, what, text)
	}
	return duration, nil
}

// at returns the file and line of a value.
func (d *document) at(v *hujson.Value) string { return fmt.Sprintf("%s:%d", d.path, d.line(v)) }

// Hook is a webhook that can change and reject requests and results. References in the URL and the
// headers are not expanded.
type Hook struct {
	URL      string
	Headers  []Pair
	Request  bool // call it with requests
	Response bool // call it with results
	Server   string
	Tool     string        // patterns; empty matches all
	Timeout  time.Duration // 0 if the file does not set it
	Source   string        // the file and line
	Except   []string      // as in Policy

	server Server // for the expansion of references
}

func (d *document) hooks(v *hujson.Value) (hooks []Hook, err error) {
	array, ok := v.Value.(*hujson.Array)
	if !ok {
		return nil, d.errorf(v, "hooks must be an array of objects")
	}
	for i := range array.Elements {
		hook, err := d.hook(&array.Elements[i], fmt.Sprintf("hooks[%d]", i))
		if err != nil {
			return nil, err
		}
		hooks = append(hooks, *hook)
	}
	return hooks, nil
}

func (d *document) hook(v *hujson.Value, what string) (*Hook, error) {
	h := &Hook{Source: d.at(v), Request: true, Response: true,
		server: Server{folder: filepath.Dir(d.path), inputs: d.inputs()}}
	err := readOwn(d, h, hookMembers, v, what, ".")
	if err == nil && h.URL == "" {
		err = d.errorf(v, `%s: "url" is missing`, what)
	}
	return h, err
}

var hookMembers = readers[Hook]{
	"url": func(d *document, h *Hook, v *hujson.Value, name string) (err error) {
		h.URL, err = d.text(v, name)
		return err
	},
	"headers": func(d *document, h *Hook, v *hujson.Value, name string) (err error) {
		h.Headers, err = d.pairs(v, name)
		return err
	},
	"on": func(d *document, h *Hook, v *hujson.Value, name string) error { return d.on(h, v, name) },
	"server": func(d *document, h *Hook, v *hujson.Value, name string) (err error) {
		h.Server, err = d.text(v, name)
		return err
	},
	"tool": func(d *document, h *Hook, v *hujson.Value, name string) (err error) {
		h.Tool, err = d.text(v, name)
		return err
	},
	"timeout": func(d *document, h *Hook, v *hujson.Value, name string) (err error) {
		h.Timeout, err = d.duration(v, name)
		return err
	},
}

// on reads which of requests and responses a hook is for.
func (d *document) on(h *Hook, v *hujson.Value, what string) error {
	events, err := d.texts(v, what)
	if err != nil {
		return err
	}
	h.Request, h.Response = slices.Contains(events, "request"), slices.Contains(events, "response")
	for _, event := range events {
		if event != "request" && event != "response" {
			return d.errorf(v, `%s must have only "request" and "response", not %q`, what, event)
		}
	}
	if len(events) == 0 {
		return d.errorf(v, `%s must have "request", "response" or both`, what)
	}
	return nil
}

// Expand returns the URL and the headers with the values of references. An error contains no values.
func (h *Hook) Expand(values *Values) (url string, headers []Pair, err error) {
	e := &expansion{server: &h.server, values: values}
	url = e.text("url", h.URL)
	for _, p := range h.Headers {
		value := e.text("header "+p.Name, p.Value)
		if strings.ContainsAny(value, "\r\n\x00") {
			e.fail("header "+p.Name, fmt.Errorf("value must not contain line feeds"))
		}
		headers = append(headers, Pair{p.Name, value})
	}
	if e.err != nil {
		return "", nil, fmt.Errorf("%s: %w", h.Source, e.err)
	}
	return url, headers, nil
}

// Toolset is a named selection of the servers. See gateway.Toolset for the patterns.
type Toolset struct {
	Name   string
	Source string // the file and line

	Servers, Tools, Prompts, Hide []string

	// Scopes are the scopes that each request needs. Principals are the users who may use the toolset;
	// if it is nil, all may.
	Scopes     []string
	Principals []Principal

	resolved []string // see HostServers
}

// HostServers returns patterns of the names in a host of the servers that Servers names as they are written.
func (t *Toolset) HostServers() []string { return t.resolved }

// resolve sets what HostServers returns. Patterns remain if they match both names of each server or none, so that other
// servers can be added to the files.
func (t *Toolset) resolve(servers []Server) {
	var names []string
	same := true
	for i := range servers {
		s := &servers[i]
		written := glob.Any(t.Servers, s.Original)
		if written {
			names = append(names, s.Name)
		}
		same = same && written == glob.Any(t.Servers, s.Name)
	}
	if t.resolved = names; same {
		t.resolved = t.Servers
	}
}

// Principal is a user of a toolset.
type Principal struct {
	Issuer  string `json:"issuer,omitempty"` // empty means any
	Subject string `json:"subject"`
}

var toolsetMembers = readers[Toolset]{
	"servers": toolsetTexts(func(t *Toolset) *[]string { return &t.Servers }),
	"tools":   toolsetTexts(func(t *Toolset) *[]string { return &t.Tools }),
	"prompts": toolsetTexts(func(t *Toolset) *[]string { return &t.Prompts }),
	"hide":    toolsetTexts(func(t *Toolset) *[]string { return &t.Hide }),
	"scopes":  toolsetTexts(func(t *Toolset) *[]string { return &t.Scopes }),
	"principals": func(d *document, t *Toolset, v *hujson.Value, name string) error {
		array, ok := v.Value.(*hujson.Array)
		if !ok {
			return d.errorf(v, "%s must be an array", name)
		}
		t.Principals = []Principal{}
		for i := range array.Elements {
			var p Principal
			what := fmt.Sprintf("%s[%d]", name, i)
			if err := readOwn(d, &p, principalMembers, &array.Elements[i], what, "."); err != nil {
				return err
			}
			if p.Subject == "" {
				return d.errorf(&array.Elements[i], "%s: subject is missing", what)
			}
			t.Principals = append(t.Principals, p)
		}
		return nil
	},
}

var principalMembers = readers[Principal]{
	"issuer": func(d *document, p *Principal, v *hujson.Value, name string) (err error) {
		p.Issuer, err = d.text(v, name)
		return err
	},
	"subject": func(d *document, p *Principal, v *hujson.Value, name string) (err error) {
		p.Subject, err = d.text(v, name)
		return err
	},
}

func toolsetTexts(field func(*Toolset) *[]string) func(*document, *Toolset, *hujson.Value, string) error {
	return func(d *document, t *Toolset, v *hujson.Value, name string) (err error) {
		*field(t), err = d.texts(v, name)
		return err
	}
}

var toolsetName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// toolsets reads an object of toolsets. A toolset that cannot be used becomes a problem.
func (d *document) toolsets(v *hujson.Value) error {
	members, err := d.members(v, "toolsets")
	if err != nil {
		return err
	}
	for _, m := range members {
		t := Toolset{Name: m.name, Source: fmt.Sprintf("%s:%d", d.path, d.line(m.value))}
		what := fmt.Sprintf("toolset %q", m.name)
		err := readOwn(d, &t, toolsetMembers, m.value, what, ": ")
		if err == nil && !toolsetName.MatchString(m.name) {
			err = d.errorf(m.value, "%s: the name must have 1 to 64 letters, digits, hyphens and underscores", what)
		}
		if err == nil && len(t.Servers)+len(t.Tools)+len(t.Prompts) == 0 {
			err = d.errorf(m.value, "%s: %w", what, errors.New("must have servers, tools or prompts"))
		}
		if err != nil {
			d.config.Problems = append(d.config.Problems, Problem{what, err})
			continue
		}
		d.config.Toolsets = append(d.config.Toolsets, t)
	}
	return nil
}
