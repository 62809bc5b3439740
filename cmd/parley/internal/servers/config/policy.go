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
	// GroupsFrom are the claims with the groups of callers; nil: the default of host.Rules.
	GroupsFrom []string
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

func (d *document) policy(v *hujson.Value, what string) (*Policy, error) {
	p := &Policy{Version: digest.Of(v.String())[:versionLength], Source: d.at(v)}
	err := readOwn(d, p, policyFields, v, what, ".")
	if members, _ := d.members(v, what); err == nil && find(members, "default") == nil {
		err = d.errorf(v, "policy: %q is missing; set it to %q, %q or %q for requests that no rule matches",
			"default", "deny", "ask", "allow")
	}
	return p, err
}

var policyFields = fields[Policy]{
	{"version", func(p *Policy) any {
		return reader(func(d *document, v *hujson.Value, name string) (err error) {
			p.Version, _, err = d.scalar(v, name)
			return err
		})
	}},
	{"default", func(p *Policy) any { return &p.Default }},
	{"approvalTimeout", func(p *Policy) any { return &p.ApprovalTimeout }},
	{"groupsFrom", func(p *Policy) any { return patterns(&p.GroupsFrom) }},
	{"rules", func(p *Policy) any {
		return reader(func(d *document, v *hujson.Value, name string) error {
			return d.array(v, name, func(v *hujson.Value, what string) error {
				rule := Rule{Source: d.at(v)}
				err := readOwn(d, &rule, ruleFields, v, what, ".")
				if members, _ := d.members(v, what); err == nil && find(members, "action") == nil {
					err = d.errorf(v, `%s: "action" is missing; set it to "allow", "ask" or "deny"`, what)
				}
				p.Rules = append(p.Rules, rule)
				return err
			})
		})
	}},
}

var ruleFields = fields[Rule]{
	{"server", func(r *Rule) any { return notEmpty(&r.Server) }},
	{"method", func(r *Rule) any { return notEmpty(&r.Method) }},
	{"tool", func(r *Rule) any { return notEmpty(&r.Tool) }},
	{"prompt", func(r *Rule) any { return notEmpty(&r.Prompt) }},
	{"resource", func(r *Rule) any { return notEmpty(&r.Resource) }},
	{"scope", func(r *Rule) any { return notEmpty(&r.Scope) }},
	{"group", func(r *Rule) any { return patterns(&r.Groups) }},
	{"when", func(r *Rule) any { return notEmpty(&r.When) }},
	{"reason", func(r *Rule) any { return notEmpty(&r.Reason) }},
	{"action", func(r *Rule) any { return &r.Action }},
}

// notEmpty reads a text of a rule.
func notEmpty(to *string) reader {
	return func(d *document, v *hujson.Value, what string) (err error) {
		if *to, err = d.text(v, what); err == nil && *to == "" {
			err = d.errorf(v, "%s must not be empty", what)
		}
		return err
	}
}

// patterns reads a text, or an array of at least one. None of them is empty.
func patterns(to *[]string) reader {
	return func(d *document, v *hujson.Value, what string) error {
		if _, ok := v.Value.(*hujson.Array); !ok {
			*to = make([]string, 1)
			return notEmpty(&(*to)[0])(d, v, what)
		}
		*to = nil
		err := d.array(v, what, func(v *hujson.Value, what string) error {
			*to = append(*to, "")
			return notEmpty(&(*to)[len(*to)-1])(d, v, what)
		})
		if err == nil && *to == nil {
			err = d.errorf(v, "%s must not be empty", what)
		}
		return err
	}
}

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

func (d *document) hooks(v *hujson.Value, what string) error {
	return d.array(v, what, func(v *hujson.Value, what string) error {
		h := Hook{Source: d.at(v), Request: true, Response: true,
			server: Server{folder: filepath.Dir(d.path), inputs: d.inputs()}}
		err := readOwn(d, &h, hookFields, v, what, ".")
		if err == nil && h.URL == "" {
			err = d.errorf(v, `%s: "url" is missing`, what)
		}
		d.config.Hooks = append(d.config.Hooks, h)
		return err
	})
}

var hookFields = fields[Hook]{
	{"url", func(h *Hook) any { return &h.URL }},
	{"headers", func(h *Hook) any { return &h.Headers }},
	{"on", func(h *Hook) any { return reader(h.on) }},
	{"server", func(h *Hook) any { return &h.Server }},
	{"tool", func(h *Hook) any { return &h.Tool }},
	{"timeout", func(h *Hook) any { return &h.Timeout }},
}

// on reads which of requests and responses a hook is for.
func (h *Hook) on(d *document, v *hujson.Value, what string) error {
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

var toolsetFields = fields[Toolset]{
	{"servers", func(t *Toolset) any { return &t.Servers }},
	{"tools", func(t *Toolset) any { return &t.Tools }},
	{"prompts", func(t *Toolset) any { return &t.Prompts }},
	{"hide", func(t *Toolset) any { return &t.Hide }},
	{"scopes", func(t *Toolset) any { return &t.Scopes }},
	{"principals", func(t *Toolset) any { return reader(t.principals) }},
}

func (t *Toolset) principals(d *document, v *hujson.Value, what string) error {
	t.Principals = []Principal{}
	return d.array(v, what, func(v *hujson.Value, what string) error {
		var p Principal
		err := readOwn(d, &p, principalFields, v, what, ".")
		if err == nil && p.Subject == "" {
			err = d.errorf(v, "%s: subject is missing", what)
		}
		t.Principals = append(t.Principals, p)
		return err
	})
}

var principalFields = fields[Principal]{
	{"issuer", func(p *Principal) any { return &p.Issuer }},
	{"subject", func(p *Principal) any { return &p.Subject }},
}

var toolsetName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// toolsets reads an object of toolsets. A toolset that cannot be used becomes a problem.
func (d *document) toolsets(v *hujson.Value, what string) error {
	members, err := d.members(v, what)
	if err != nil {
		return err
	}
	for _, m := range members {
		t := Toolset{Name: m.name, Source: d.at(m.value)}
		what := fmt.Sprintf("toolset %q", m.name)
		err := readOwn(d, &t, toolsetFields, m.value, what, ": ")
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
