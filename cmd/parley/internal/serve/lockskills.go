package serve

import (
	"context"
	"fmt"

	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/skills"
)

// recordSkills calls record with the skills of a server.
func recordSkills(ctx context.Context, h *host.Host, s *host.ServerStatus, record func(host.Definition) error) error {
	if _, declared := s.Server.Extension(mcp.ExtensionSkills); !declared {
		return nil
	}
	for skill, err := range skills.List(ctx, h.Client(s.Name)) {
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
