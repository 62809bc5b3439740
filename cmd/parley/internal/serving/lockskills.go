package serving

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/link"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/skills"
)

// skillsOf are the skills of a server of a host.
type skillsOf struct {
	host   *host.Host
	server *host.ServerStatus
}

// extending has functions of a host for the extensions of its servers.
var extending = link.Get[link.Extensions[host.Host, client.CallOption]]()

// CallExtension implements skills.Source.
func (s skillsOf) CallExtension(ctx context.Context, method string, params any,
	options ...client.CallOption) (json.RawMessage, error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	return extending.Call(s.host, ctx, s.server.Name, method, raw, options...)
}

// ReadResource implements skills.Source.
func (s skillsOf) ReadResource(ctx context.Context, uri string,
	options ...client.CallOption) (*mcp.ReadResourceResult, error) {
	return s.host.ReadResource(ctx, s.server.Name, uri, options...)
}

// Server implements skills.Source.
func (s skillsOf) Server() client.ServerDetails { return s.server.Server }

// recordSkills calls record with the skills of a server.
func recordSkills(ctx context.Context, h *host.Host, s *host.ServerStatus, record func(host.Definition) error) error {
	if _, declared := s.Server.Extension(mcp.ExtensionSkills); !declared {
		return nil
	}
	for skill, err := range skills.List(ctx, skillsOf{h, s}) {
		if err != nil {
			return fmt.Errorf("server %q: %w", s.Name, err)
		}
		raw, err := skill.MarshalJSON()
		if err == nil {
			raw, err = digest.Canonical(raw)
		}
		if err == nil {
			err = record(host.Definition{Server: s.Name, Kind: "skill", Name: skill.URI, JSON: raw})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
