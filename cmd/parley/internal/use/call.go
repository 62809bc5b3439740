package use

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/completion"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/failure"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/output"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/quoting"
	"github.com/parley-mcp/parley/cmd/parley/internal/use/listing"
	"github.com/parley-mcp/parley/cmd/parley/internal/use/toolargs"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

func NewCall() *cobra.Command {
	var flags sessionFlags
	var arguments objectFlag
	var task bool
	cmd := &cobra.Command{
		Use:   "call TARGET TOOL [key=value …] [flags]",
		Short: "Call a tool",
		Long: `Call a tool and print its result to stdout. key=value sets an argument, converted to the type in the
tool's schema. Repeat it for a list, and write an object as JSON. key:=json sets any JSON value. If the server runs the
call as a task, parley waits for its result.

` + questionHelp + "\n\n" + dialing.TargetHelp,
		Example: `
parley call http://127.0.0.1:7777/mcp greet name=Ada
parley call http://127.0.0.1:7777/mcp weather --json '{"city": "Oslo"}'
parley call --config mcp.json files read_text_file path=notes.txt
parley call --task http://127.0.0.1:7777/mcp bake kind=plum
parley call add a=2 b=3 -- uv run server.py`,
		RunE: dialing.WithWords(func(cmd *cobra.Command, target, rest []string) error {
			if len(rest) == 0 {
				return errors.New("no TOOL; list the server's tools with parley ls")
			}
			if cmd.Flags().Changed("json") && len(rest) > 1 {
				return fmt.Errorf("--json sets all arguments; remove %q or --json", rest[1])
			}
			if len(rest) == 2 && strings.HasPrefix(strings.TrimSpace(rest[1]), "{") {
				return fmt.Errorf("%q is not key=value; for arguments as JSON write --json %s", rest[1],
					quoting.OfUser().Quote(rest[1]))
			}
			return callTool(cmd, &flags, target, rest[0], rest[1:], &arguments, task)
		}),
	}
	flags.add(cmd)
	arguments.add(cmd, "arguments")
	cmd.Flags().BoolVar(&task, "task", false, "start a task, and print its ID at once")
	completion.Add(cmd, &flags, completion.Target, completion.Tool, completion.ToolArguments)
	return cmd
}

func callTool(cmd *cobra.Command, flags *sessionFlags, target []string, tool string, words []string, object *objectFlag,
	task bool) error {
	arguments := json.RawMessage("{}")
	if object.text != "" {
		var err error
		if arguments, err = object.read(cmd); err != nil {
			return err
		}
	}
	var settings []func(*client.Dialer, client.Target) error
	if task {
		settings = append(settings, startsTasks(cmd))
	}
	c, err := flags.open(cmd, target, tool, settings...)
	if err != nil {
		return err
	}
	defer c.close()
	mistaken := func() error { return lookUp(cmd.Context(), c.Client, tool) }
	if object.text == "" {
		input, err := schemaOf(cmd.Context(), c.Client, tool)
		switch unlisted := new(unlistedError); {
		case errors.As(err, &unlisted):
			input, mistaken = json.RawMessage(unlistedSchema), func() error { return unlisted }
		case err != nil:
			return err
		default:
			mistaken = func() error { return nil }
		}
		if arguments, err = toolargs.Parse(input, words); err != nil {
			return err
		}
		for _, undefined := range toolargs.Undefined(input, arguments) {
			cmd.PrintErrln("parley: note: " + terminal.Line(undefined.Error()))
		}
	}
	if task {
		return instead(startTask(cmd, c, tool, arguments), tool, mistaken)
	}
	result, err := c.CallTool(cmd.Context(), tool, arguments, c.onProgress())
	c.progress.Done()
	if err != nil {
		return instead(err, tool, mistaken)
	}
	if result.IsError && saysUnknown(textOf(result.Content), tool) {
		if unlisted := mistaken(); unlisted != nil {
			return unlisted
		}
	}
	return finishCall(cmd, c, tool, result)
}

// finishCall saves and prints the result of a tool, and returns an error if the tool has failed.
func finishCall(cmd *cobra.Command, c *session, tool string, result *mcp.CallToolResult) error {
	saved, err := c.save(cmd, tool, result.Content...)
	if err != nil {
		return err
	}
	if err := printResult(cmd, result, saved); err != nil {
		return err
	}
	if result.IsError {
		return failure.WithCode(failure.ExitToolError, failure.Reported(errors.New("the tool returned an error")))
	}
	return nil
}

func NewRead() *cobra.Command {
	var flags sessionFlags
	cmd := &cobra.Command{
		Use:   "read TARGET URI [flags]",
		Short: "Read a resource",
		Long: `Read a resource and print its contents to stdout. Text ends with a newline, and binary contents are
printed byte for byte. If stdout is a terminal, control characters are replaced and binary contents
are described.

` + questionHelp + "\n\n" + dialing.TargetHelp,
		Example: `
parley read http://127.0.0.1:7777/mcp demo://guide
parley read --config mcp.json files file:///project/logo.png >logo.png`,
		RunE: dialing.WithWords(func(cmd *cobra.Command, target, rest []string) error {
			switch {
			case len(rest) == 0:
				return errors.New("no URI; list the server's resources with parley ls")
			case len(rest) > 1:
				return fmt.Errorf("unexpected argument %q; read takes one URI", rest[1])
			}
			return read(cmd, &flags, target, rest[0])
		}),
	}
	flags.add(cmd)
	completion.Add(cmd, &flags, completion.Target, completion.Resource, completion.Nothing)
	return cmd
}

func read(cmd *cobra.Command, flags *sessionFlags, target []string, uri string) error {
	c, err := flags.open(cmd, target, uri)
	if err != nil {
		return err
	}
	defer c.close()
	result, err := c.ReadResource(cmd.Context(), uri, c.onProgress())
	c.progress.Done()
	reported, _ := errors.AsType[*jsonrpc.Error](err)
	switch {
	case errors.Is(err, call.ErrResourceNotFound), reported != nil && saysUnknown(reported.Message, uri):
		return failure.Mistaken(unknownResource(cmd.Context(), c.Client, uri), err)
	case err != nil:
		return err
	}
	saved, err := c.saveContents(cmd, result.Contents)
	if err != nil {
		return err
	}
	return output.Show(cmd, result, func(w io.Writer) error {
		return printContents(w, result.Contents, saved)
	})
}

// printContents prints the contents of a resource. If there are several, each follows a line with its URI.
func printContents(w io.Writer, contents []mcp.ResourceContents, saved savedFiles) error {
	c := newContentWriter(w, saved)
	if len(contents) == 1 {
		only := &contents[0]
		switch {
		case only.Blob == nil && only.Text == "":
			return nil
		case only.Blob == nil:
			c.line(only.Text)
		case c.terminal || saved[only] != "":
			c.resource(only)
		default:
			_, err := w.Write(only.Blob)
			return err
		}
	} else {
		for i := range contents {
			c.resource(&contents[i])
		}
	}
	_, err := io.WriteString(w, c.b.String())
	return err
}

func NewPrompt() *cobra.Command {
	var flags sessionFlags
	cmd := &cobra.Command{
		Use:   "prompt TARGET NAME [key=value …] [flags]",
		Short: "Get a prompt",
		Long: `Get a prompt from a server and print its messages, each after a line with its role.

` + questionHelp + "\n\n" + dialing.TargetHelp,
		Example: `
parley prompt http://127.0.0.1:7777/mcp postcard city=Oslo tone=friendly`,
		RunE: dialing.WithWords(func(cmd *cobra.Command, target, rest []string) error {
			if len(rest) == 0 {
				return errors.New("no NAME; list the server's prompts with parley ls")
			}
			arguments, err := toolargs.ParseStrings(rest[1:])
			if err != nil {
				return err
			}
			return prompt(cmd, &flags, target, rest[0], arguments)
		}),
	}
	flags.add(cmd)
	completion.Add(cmd, &flags, completion.Target, completion.Prompt, completion.PromptArguments)
	return cmd
}

func prompt(cmd *cobra.Command, flags *sessionFlags, target []string, name string, arguments map[string]string) error {
	c, err := flags.open(cmd, target, name)
	if err != nil {
		return err
	}
	defer c.close()
	if err := checkPrompt(cmd, c.Client, name, arguments); err != nil {
		return err
	}
	result, err := c.GetPrompt(cmd.Context(), name, arguments, c.onProgress())
	c.progress.Done()
	if err != nil {
		return err
	}
	var blocks []mcp.Content
	for _, m := range result.Messages {
		blocks = append(blocks, m.Content)
	}
	saved, err := c.save(cmd, name, blocks...)
	if err != nil {
		return err
	}
	return output.Show(cmd, result, func(w io.Writer) error {
		c := newContentWriter(w, saved)
		c.messages(result.Messages)
		_, err := io.WriteString(w, c.b.String())
		return err
	})
}

// checkPrompt returns an error if the server does not have the prompt, or if the arguments do not match it.
func checkPrompt(cmd *cobra.Command, c *client.Client, name string, arguments map[string]string) error {
	if c.Server().Capabilities.Prompts == nil {
		return fmt.Errorf("unknown prompt %q; the server has no prompts", name)
	}
	var names []string
	for p, err := range c.Prompts(cmd.Context()) {
		if err != nil {
			return err
		}
		if p.Name == name {
			return checkArguments(p, arguments)
		}
		names = append(names, p.Name)
	}
	return unknownName("prompt", name, names)
}

func checkArguments(p *mcp.Prompt, arguments map[string]string) error {
	usage := "the prompt has no arguments"
	if len(p.Arguments) > 0 {
		usage = "the prompt's arguments are " + terminal.Line(listing.PromptSummary(p))
	}
	var names []string
	for _, a := range p.Arguments {
		names = append(names, a.Name)
	}
	for key := range arguments {
		if !slices.Contains(names, key) {
			return terminal.Unknown("argument", key, names, usage)
		}
	}
	for _, a := range p.Arguments {
		if _, given := arguments[a.Name]; a.Required && !given {
			return fmt.Errorf("argument %q is missing; %s", a.Name, usage)
		}
	}
	return nil
}

// messages writes messages, each after a line with its role.
func (c *contentWriter) messages(messages []mcp.PromptMessage) {
	for i, m := range messages {
		if i > 0 {
			c.line("")
		}
		c.line(terminal.Line(string(m.Role)) + ":")
		c.block(m.Content)
	}
}

func NewComplete() *cobra.Command {
	var flags dialing.Flags
	var given []string
	cmd := &cobra.Command{
		Use:   "complete TARGET prompt|template NAME ARGUMENT [VALUE] [flags]",
		Short: "Complete an argument of a prompt or resource template",
		Long: `Print the values that the server suggests for an argument of a prompt, or for a variable of a
resource template, one per line. NAME is the name of the prompt or the URI template. VALUE is
the beginning of the value.

` + dialing.TargetHelp,
		Example: `
parley complete http://127.0.0.1:7777/mcp prompt postcard city O
parley complete http://127.0.0.1:7777/mcp template demo://cities/{city} city`,
		RunE: dialing.WithWords(func(cmd *cobra.Command, target, rest []string) error {
			params, err := parseComplete(rest, given)
			if err != nil {
				return err
			}
			return complete(cmd, &flags, target, params)
		}),
	}
	flags.Add(cmd)
	cmd.Flags().Var((*program.Repeated)(&given), "given", "value of another argument, as `key=value` (repeatable)")
	completion.Add(cmd, &flags, completion.Target, completion.Words("prompt", "template"), completion.Reference,
		completion.Variable, completion.Nothing)
	return cmd
}

// parseComplete parses the words after TARGET.
func parseComplete(words, given []string) (mcp.CompleteParams, error) {
	var params mcp.CompleteParams
	if len(words) < 3 || len(words) > 4 {
		return params, errors.New("invalid arguments; after TARGET, write prompt NAME ARGUMENT [VALUE], or template " +
			"URI-TEMPLATE VARIABLE [VALUE]")
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
	arguments, err := toolargs.ParseStrings(given)
	if err != nil {
		return params, fmt.Errorf("--given: %w", err)
	}
	if len(arguments) > 0 {
		params.Context = &mcp.CompleteContext{Arguments: arguments}
	}
	return params, nil
}

func complete(cmd *cobra.Command, flags *dialing.Flags, target []string, params mcp.CompleteParams) error {
	c, err := flags.Dial(cmd, target)
	if err != nil {
		return err
	}
	defer dialing.CloseQuietly(c)
	completion, err := c.Complete(cmd.Context(), params)
	if err != nil {
		return err
	}
	return output.Show(cmd, completion, func(w io.Writer) error {
		var b strings.Builder
		for _, value := range completion.Values {
			b.WriteString(terminal.Line(value) + "\n")
		}
		if _, err := io.WriteString(w, b.String()); err != nil {
			return err
		}
		if completion.HasMore {
			cmd.PrintErrln("parley: the server offers more values; write a longer VALUE")
		}
		return nil
	})
}
