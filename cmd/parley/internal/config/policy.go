package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tailscale/hujson"

	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/digest"
)

// Policy is the policy of a file. Its conditions are not compiled.
type Policy struct {
	Version string // a digest of the policy if the file has none
	Default host.Action
	Rules   []Rule
	// ApprovalTimeout limits the time for an approval; 0 if the file does not set it.
	ApprovalTimeout time.Duration
	Source          string // the file and line
}

// Rule is one rule of a policy.
type Rule struct {
	host.Rule        // without When
	When      string // a condition, or empty
	Source    string // the file and line
}

// versionLength is the length of the version of a policy that has none.
const versionLength = 12

// policy reads the policy. A member that is unknown is an error: a rule without it would match more.
func (d *document) policy(v *hujson.Value) (*Policy, error) {
	p := &Policy{Version: digest.Of(v.String())[:versionLength], Source: d.at(v)}
	given := false
	err := d.known(v, "policy", func(field, name string, v *hujson.Value) (known bool, err error) {
		switch field {
		case "version":
			p.Version, _, err = d.scalar(v, name)
		case "default":
			given = true
			p.Default, err = d.action(v, name)
		case "approvalTimeout":
			p.ApprovalTimeout, err = d.duration(v, name)
		case "rules":
			p.Rules, err = d.rules(v, name)
		default:
			return false, nil
		}
		return true, err
	})
	if err == nil && !given {
		err = d.errorf(v, `policy: "default" is missing; set it to "deny", "ask" or "allow" for requests that no rule matches`)
	}
	return p, err
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
	given := false
	err := d.known(v, what, func(field, name string, v *hujson.Value) (known bool, err error) {
		texts := map[string]*string{
			"server": &rule.Server, "tool": &rule.Tool, "prompt": &rule.Prompt, "resource": &rule.Resource,
			"scope": &rule.Scope, "when": &rule.When, "reason": &rule.Reason,
		}
		if text := texts[field]; text != nil {
			if *text, err = d.text(v, name); err == nil && *text == "" {
				err = d.errorf(v, "%s must not be empty", name)
			}
			return true, err
		}
		if field == "action" {
			given = true
			rule.Action, err = d.action(v, name)
			return true, err
		}
		return false, nil
	})
	if err == nil && !given {
		err = d.errorf(v, `%s: "action" is missing; set it to "allow", "ask" or "deny"`, what)
	}
	return rule, err
}

// known is fields for an object in which an unknown member is an error.
func (d *document) known(v *hujson.Value, what string, read func(field, name string, v *hujson.Value) (bool, error)) error {
	return d.fields(v, what, ".", func(field, name string, v *hujson.Value) (bool, error) {
		known, err := read(field, name, v)
		if err == nil && !known {
			err = d.errorf(v, "%s is unknown: correct or remove it", name)
		}
		return true, err
	})
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
	h := &Hook{Source: d.at(v), Request: true, Response: true, server: Server{folder: filepath.Dir(d.path), inputs: d.inputs()}}
	err := d.known(v, what, func(field, name string, v *hujson.Value) (known bool, err error) {
		switch field {
		case "url":
			h.URL, err = d.text(v, name)
		case "headers":
			h.Headers, err = d.pairs(v, name)
		case "on":
			err = d.on(h, v, name)
		case "server":
			h.Server, err = d.text(v, name)
		case "tool":
			h.Tool, err = d.text(v, name)
		case "timeout":
			h.Timeout, err = d.duration(v, name)
		default:
			return false, nil
		}
		return true, err
	})
	if err == nil && h.URL == "" {
		err = d.errorf(v, `%s: "url" is missing`, what)
	}
	return h, err
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
