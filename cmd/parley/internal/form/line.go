package form

import (
	"context"
	"slices"

	"charm.land/huh/v2"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
)

// Line asks the user for one line of text. A secret is not echoed. answered is false if the
// user cancels.
func (s *Screen) Line(ctx context.Context, title string, secret bool) (text string, answered bool, err error) {
	field := huh.NewInput().Title(title).Value(&text)
	if secret {
		field.EchoMode(huh.EchoModePassword)
	}
	_, err = s.run(ctx, field)
	if err == ErrInterrupted {
		return "", false, nil
	}
	return text, err == nil, err
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
	if err == ErrInterrupted {
		return "", false, nil
	}
	return chosen, err == nil, err
}
