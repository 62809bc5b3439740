package defdiff

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ParseListing returns the definitions in the output of parley ls with the format JSON.
func ParseListing(raw []byte) (all []Definition, err error) {
	var listing struct {
		Server    map[string]jsontext.Value `json:"server"`
		Tools     []jsontext.Value          `json:"tools"`
		Prompts   []jsontext.Value          `json:"prompts"`
		Resources []jsontext.Value          `json:"resources"`
		Templates []jsontext.Value          `json:"resourceTemplates"`
	}
	if err := json.Unmarshal(raw, &listing); err != nil {
		return nil, fmt.Errorf("not the JSON output of parley ls: %w", err)
	}
	if listing.Server == nil {
		return nil, fmt.Errorf("not the JSON output of parley ls: it has no member %q", "server")
	}
	about := make(map[string]jsontext.Value)
	for _, name := range []string{"instructions", "capabilities"} {
		if value := listing.Server[name]; value != nil {
			about[name] = value
		}
	}
	encoded, err := json.Marshal(about)
	if err != nil {
		return nil, err
	}
	all = append(all, Definition{Kind: Server, JSON: encoded})
	for _, list := range []struct {
		kind, key string
		entries   []jsontext.Value
	}{
		{Tool, "name", listing.Tools}, {Prompt, "name", listing.Prompts}, {Resource, "uri", listing.Resources}, {Template, "uriTemplate", listing.Templates},
	} {
		for _, entry := range list.entries {
			members := make(map[string]jsontext.Value)
			var name string
			if err := json.Unmarshal(entry, &members); err != nil {
				return nil, fmt.Errorf("%s: %w", list.kind, err)
			}
			if err := json.Unmarshal(members[list.key], &name); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", list.kind, list.key, err)
			}
			all = append(all, Definition{list.kind, name, entry})
		}
	}
	return all, nil
}
