package client

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// MissingCapabilitiesError reports that a server lacks what Dialer.Require names.
type MissingCapabilitiesError struct {
	// Missing are the names, such as "tools", "resources.subscribe" or
	// "extensions[io.modelcontextprotocol/tasks]".
	Missing []string
	// Offered is what the server has instead.
	Offered mcp.ServerCapabilities
}

// Error implements the error interface.
func (e *MissingCapabilitiesError) Error() string {
	return fmt.Sprintf("the server does not offer %s, which Dialer.Require asks for", strings.Join(e.Missing, ", "))
}

// require holds what a server offers against Dialer.Require.
func (d *Dialer) require(offered mcp.ServerCapabilities) error {
	want, err := json.Marshal(d.Require)
	if err != nil {
		return fmt.Errorf("Dialer.Require: %w", err)
	}
	declared := offered
	declared.Extensions = maps.Clone(offered.Extensions)
	for id := range d.Require.Extensions { // older revisions have them elsewhere
		if settings, ok := (ServerDetails{Capabilities: offered}).Extension(id); ok && offered.Extensions[id] == nil {
			if declared.Extensions == nil {
				declared.Extensions = make(map[string]json.RawMessage)
			}
			declared.Extensions[id] = settings
		}
	}
	have, err := json.Marshal(declared)
	if err != nil {
		return fmt.Errorf("the server's capabilities: %w", err)
	}
	if missing := lacking(nil, "", want, have); len(missing) > 0 {
		return &MissingCapabilitiesError{Missing: missing, Offered: offered}
	}
	return nil
}

// lacking appends the names of what an object of capabilities has and another has not.
// The settings of extensions and experiments are not compared: what they mean is known
// to those alone who know the extension.
func lacking(missing []string, path string, want, have []byte) []string {
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
		case path == "" && (name == "extensions" || name == "experimental"): // absent is as good as empty
			missing = lacking(missing, at, value, offered)
		case !ok, string(value) == "true" && string(offered) != "true":
			missing = append(missing, at)
		case value[0] == '{' && !named:
			missing = lacking(missing, at, value, offered)
		}
	}
	return missing
}
