package client

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// MissingCapabilitiesError reports that a server does not declare the capabilities of
// Dialer.Require.
type MissingCapabilitiesError struct {
	// Missing has the names of the missing capabilities, such as "tools",
	// "resources.subscribe" or "extensions[io.modelcontextprotocol/tasks]".
	Missing []string
	// Offered has the capabilities that the server declares.
	Offered mcp.ServerCapabilities
}

// Error implements the error interface.
func (e *MissingCapabilitiesError) Error() string {
	return fmt.Sprintf("the server does not offer the capabilities that Dialer.Require names: %s", strings.Join(e.Missing, ", "))
}

// require checks the capabilities of a server against Dialer.Require.
func (d *Dialer) require(offered mcp.ServerCapabilities) error {
	want, err := schema.Marshal(d.Require)
	if err != nil {
		return fmt.Errorf("Dialer.Require: %w", err)
	}
	declared := offered
	declared.Extensions = maps.Clone(offered.Extensions)
	for id := range d.Require.Extensions { // in a session they may be experimental capabilities
		if settings, ok := (ServerDetails{Capabilities: offered}).Extension(id); ok && offered.Extensions[id] == nil {
			if declared.Extensions == nil {
				declared.Extensions = make(map[string]json.RawMessage)
			}
			declared.Extensions[id] = settings
		}
	}
	have, err := schema.Marshal(declared)
	if err != nil {
		return fmt.Errorf("cannot encode the server's capabilities: %w", err)
	}
	if missing := missingCapabilities(nil, "", want, have); len(missing) > 0 {
		return &MissingCapabilitiesError{Missing: missing, Offered: offered}
	}
	return nil
}

// missingCapabilities appends the names of the capabilities in want that have lacks. It does
// not compare the settings of extensions and experimental capabilities, whose meaning it
// does not know.
func missingCapabilities(missing []string, path string, want, have []byte) []string {
	named := path == "extensions" || path == "experimental"
	for name, value := range jsonrpc.All(want) {
		at := name
		switch {
		case named:
			at = path + "[" + name + "]"
		case path != "":
			at = path + "." + name
		}
		offered, ok := jsonrpc.Get(have, name)
		switch {
		case path == "" && (name == "extensions" || name == "experimental"): // absent means empty
			missing = missingCapabilities(missing, at, value, offered)
		case !ok, string(value) == "true" && string(offered) != "true":
			missing = append(missing, at)
		case value[0] == '{' && !named:
			missing = missingCapabilities(missing, at, value, offered)
		}
	}
	return missing
}
