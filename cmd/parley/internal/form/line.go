package form

import (
	"context"
	"slices"

	"charm.land/huh/v2"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
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

// Choose asks the user to choose one of several texts. The initial choice is selected first.
// answered is false if the user cancels.
func (s *Screen) Choose(ctx context.Context, title string, texts []string, initial string) (chosen string, answered bool, err error) {
	var options []option[string]
	for _, text := range texts {
		o := option[string]{terminal.Line(text), text}
		if text == initial {
			options = slices.Insert(options, 0, o)
		} else {
			options = append(options, o)
		}
	}
	chosen, err = choose(ctx, s, title, options)
	return chosen, err == nil && chosen != "", err
}
