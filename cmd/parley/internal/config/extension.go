package config

import (
	"fmt"

	"github.com/tailscale/hujson"

	"github.com/parley-mcp/parley/host"
)

// extensionMembers are the members of one of extensions.
var extensionMembers = readers[host.Extension]{
	"settings": func(d *document, e *host.Extension, v *hujson.Value, name string) error {
		if _, ok := v.Value.(*hujson.Object); !ok {
			return d.errorf(v, "%s must be an object", name)
		}
		settings := v.Clone()
		settings.Standardize()
		settings.Minimize()
		e.Settings = settings.Pack()
		return nil
	},
	"requests": func(d *document, e *host.Extension, v *hujson.Value, name string) (err error) {
		e.Requests, err = d.texts(v, name)
		return err
	},
	"notifications": func(d *document, e *host.Extension, v *hujson.Value, name string) (err error) {
		e.Notifications, err = d.texts(v, name)
		return err
	},
}

// extensions reads the extensions of a server, by ID.
func (d *document) extensions(v *hujson.Value, what string) ([]host.Extension, error) {
	members, err := d.members(v, what)
	if err != nil {
		return nil, err
	}
	var all []host.Extension
	for _, m := range members {
		e := host.Extension{ID: m.name}
		if err := readOwn(d, &e, extensionMembers, m.value, fmt.Sprintf("%s[%q]", what, m.name), "."); err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}
