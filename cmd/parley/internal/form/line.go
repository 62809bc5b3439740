package form

import (
	"context"

	"charm.land/huh/v2"

	"github.com/parley-mcp/parley/mcp"
)

// Line has the user enter one line, which a secret does not show. Answered is false if
// they leave instead.
func (s *Screen) Line(ctx context.Context, title string, secret bool) (text string, answered bool, err error) {
	field := huh.NewInput().Title(title).Value(&text)
	if secret {
		field.EchoMode(huh.EchoModePassword)
	}
	action, err := s.run(ctx, field)
	return text, err == nil && action == mcp.ElicitAccept, err
}
