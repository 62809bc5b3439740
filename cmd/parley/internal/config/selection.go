package config

import (
	"github.com/tailscale/hujson"

	"github.com/parley-mcp/parley/host"
)

// toolMembers are the members of a selection of tools, promptMembers those of prompts.
var (
	toolMembers = readers[host.Selection]{
		"only": readOnlyNames, "hide": readHiddenNames, "rename": readNewNames,
		"readOnly":       annotation(func(s *host.Selection) *bool { return &s.ReadOnly }),
		"nonDestructive": annotation(func(s *host.Selection) *bool { return &s.NonDestructive }),
		"idempotent":     annotation(func(s *host.Selection) *bool { return &s.Idempotent }),
		"closedWorld":    annotation(func(s *host.Selection) *bool { return &s.ClosedWorld }),
	}
	promptMembers = readers[host.Selection]{"only": readOnlyNames, "hide": readHiddenNames, "rename": readNewNames}
)

func readOnlyNames(d *document, s *host.Selection, v *hujson.Value, name string) error {
	return d.patterns(&s.Only, v, name)
}

func readHiddenNames(d *document, s *host.Selection, v *hujson.Value, name string) error {
	return d.patterns(&s.Hide, v, name)
}

func readNewNames(d *document, s *host.Selection, v *hujson.Value, name string) error {
	members, err := d.members(v, name)
	if err != nil {
		return err
	}
	s.Rename = make(map[string]string, len(members))
	for _, m := range members {
		if s.Rename[m.name], err = d.text(m.value, name+" "+m.name); err != nil {
			return err
		}
	}
	return nil
}

// annotation reads a condition on the annotations of tools.
func annotation(field func(*host.Selection) *bool) func(*document, *host.Selection, *hujson.Value, string) error {
	return func(d *document, s *host.Selection, v *hujson.Value, name string) (err error) {
		*field(s), err = d.boolean(v, name)
		return err
	}
}

// selection reads a selection: an object, or an array with the patterns of only.
func (d *document) selection(s *host.Selection, by readers[host.Selection], v *hujson.Value, what string) error {
	if _, ok := v.Value.(*hujson.Array); ok {
		return d.patterns(&s.Only, v, what)
	}
	return readOwn(d, s, by, v, what, ".")
}

// patterns appends an array of patterns to those that other members have given. An empty array means that
// no name matches.
func (d *document) patterns(to *[]string, v *hujson.Value, what string) error {
	patterns, err := d.texts(v, what)
	*to = append(append([]string{}, *to...), patterns...)
	return err
}
