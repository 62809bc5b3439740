package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/mcp"
)

func newComplete() *cobra.Command {
	var flags dialFlags
	var given []string
	cmd := &cobra.Command{
		Use:   "complete TARGET prompt|template NAME ARGUMENT [VALUE] [flags]",
		Short: "Complete an argument of a prompt or resource template",
		Long: `Print the values that the server suggests for an argument of a prompt, or for a variable of a
resource template, one per line. NAME is the name of the prompt or the URI template. VALUE is
the beginning of the value.

` + targetHelp,
		Example: `
parley complete http://127.0.0.1:7777/mcp prompt postcard city O
parley complete http://127.0.0.1:7777/mcp template demo://cities/{city} city`,
		RunE: func(cmd *cobra.Command, args []string) error {
			target, rest, err := split(cmd, args)
			if err != nil {
				return err
			}
			params, err := parseComplete(rest, given)
			if err != nil {
				return err
			}
			return complete(cmd, &flags, target, params)
		},
	}
	flags.add(cmd)
	cmd.Flags().Var((*repeated)(&given), "given", "value of another argument, as `key=value` (repeatable)")
	completes(cmd, &flags, completeTarget, completeWords("prompt", "template"), completeReference, completeVariable, completeNothing)
	return cmd
}

// parseComplete parses the words after TARGET.
func parseComplete(words, given []string) (mcp.CompleteParams, error) {
	var params mcp.CompleteParams
	if len(words) < 3 || len(words) > 4 {
		return params, errors.New("invalid arguments; after TARGET, write prompt NAME ARGUMENT [VALUE], or template URI-TEMPLATE VARIABLE [VALUE]")
	}
	switch words[0] {
	case "prompt":
		params.Ref = mcp.CompleteReference{Type: mcp.RefPrompt, Name: words[1]}
	case "template":
		params.Ref = mcp.CompleteReference{Type: mcp.RefResource, URI: words[1]}
	default:
		return params, fmt.Errorf("unknown kind %q; write prompt or template", words[0])
	}
	params.Argument.Name = words[2]
	if len(words) == 4 {
		params.Argument.Value = words[3]
	}
	arguments, err := parseStrings(given)
	if err != nil {
		return params, fmt.Errorf("--given: %w", err)
	}
	if len(arguments) > 0 {
		params.Context = &mcp.CompleteContext{Arguments: arguments}
	}
	return params, nil
}

func complete(cmd *cobra.Command, flags *dialFlags, target []string, params mcp.CompleteParams) error {
	c, err := flags.dial(cmd, target)
	if err != nil {
		return err
	}
	defer release(cmd, c)
	completion, err := c.Complete(cmd.Context(), params)
	if err != nil {
		return err
	}
	return show(cmd, completion, func(w io.Writer) error {
		var b strings.Builder
		for _, value := range completion.Values {
			b.WriteString(terminal.Line(value) + "\n")
		}
		if _, err := io.WriteString(w, b.String()); err != nil {
			return err
		}
		if completion.HasMore {
			cmd.PrintErrln("parley: the server has more values; write a longer VALUE")
		}
		return nil
	})
}
