package host

import (
	"context"
	"fmt"
)

// resolve returns the server of a tool with a merged name, and the name that the server uses. It
// waits for servers whose lists are not known yet if the name may be in them.
func (h *Host) resolve(ctx context.Context, name string) (server, tool string, err error) {
	for {
		servers := h.roster.Load()
		possible, down := h.awaitName(ctx, name)
		s, tool, err := h.names.tool(name)
		if s == nil && err == nil {
			if server, tool, ok := callerTool(ctx, possible, name); ok {
				return server, tool, nil
			}
		}
		switch {
		case err != nil:
			return "", "", err
		case s != nil:
			return s.name, tool, nil
		case servers != h.roster.Load(): // SetServers has replaced servers that may have the name
			continue
		case down != nil:
			return "", "", down
		case len(possible) == 0:
			return "", "", fmt.Errorf("%w: no server has tools with names such as %.200q", ErrUnknownServer, name)
		}
		for _, s := range possible {
			if err := s.withheldNamed(name); err != nil {
				return "", "", fmt.Errorf("%w: %q: %w", ErrUnknownTool, name, err)
			}
		}
		return "", "", fmt.Errorf("%w: %.200q", ErrUnknownTool, name)
	}
}

// awaitName returns the servers that may have a tool with a merged name. It waits for those whose lists
// are not known until one has the name, and returns the first error.
func (h *Host) awaitName(ctx context.Context, name string) (possible []*supervisor, err error) {
	for _, s := range h.all() {
		if !s.mayHave(name) {
			continue
		}
		possible = append(possible, s)
		if s.current() != nil {
			continue
		}
		if found, _, conflict := h.names.tool(name); found != nil || conflict != nil {
			return possible, nil
		}
		if _, down := s.await(ctx); down != nil && err == nil {
			err = down
		}
	}
	return possible, err
}
