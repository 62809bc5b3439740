package form

import (
	"context"

	"charm.land/huh/v2"

	"github.com/parley-mcp/parley/mcp"
)

// Line asks the user for one line of text. A secret is not echoed. answered is false if the
// user cancels.
func (s *Screen) Line(ctx context.Context, title string, secret bool) (text string, answered bool, err error) {
	field := huh.NewInput().Title(title).Value(&text)
	if secret {
		field.EchoMode(huh.EchoModePassword)
	}
	action, err := s.run(ctx, field)
	return text, err == nil && action == mcp.ElicitAccept, err
}
