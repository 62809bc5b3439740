package config

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/tailscale/hujson"

	"github.com/parley-mcp/parley/internal/glob"
)

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
