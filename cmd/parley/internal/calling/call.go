package calling

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/completion"
	"github.com/parley-mcp/parley/cmd/parley/internal/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/failure"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/toolargs"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

func NewCall() *cobra.Command {
	var flags sessionFlags
	var arguments objectFlag
	var task bool
	cmd := &cobra.Command{
		Use:   "call TARGET TOOL [key=value …] [flags]",
		Short: "Call a tool",
		Long: `Call a tool and print its result to stdout. key=value sets an argument, in the type that the tool's schema
requires: repeat the key for an array, and write an object as JSON. key:=json sets any JSON value. parley waits
for tasks; keep the id that --task prints secret, because it can be all that protects the task.

` + questionHelp + "\n\n" + dialing.TargetHelp,
		Example: `
parley call http://127.0.0.1:7777/mcp greet name=Ada
parley call http://127.0.0.1:7777/mcp weather --json '{"city": "Oslo"}'
parley call http://127.0.0.1:7777/mcp weather --json @city.json
parley call --config mcp.json files read_text_file path=notes.txt
parley call --task http://127.0.0.1:7777/mcp bake kind=plum
parley call greet name=Ada -- parley serve --stdio`,
		RunE: dialing.WithWords(func(cmd *cobra.Command, target, rest []string) error {
			if len(rest) == 0 {
				return errors.New("no TOOL; list the server's tools with parley ls")
			}
			if cmd.Flags().Changed("json") && len(rest) > 1 {
				return fmt.Errorf("--json must be the only arguments; remove %q or --json", rest[1])
			}
			return callTool(cmd, &flags, target, rest[0], rest[1:], &arguments, task)
		}),
	}
	flags.add(cmd)
	arguments.add(cmd, "arguments")
	cmd.Flags().BoolVar(&task, "task", false, "start a task, and print its id at once")
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
	defer c.close(cmd)
	var unlisted *unlistedError
	if object.text == "" {
		input, err := schemaOf(cmd.Context(), c.Client, tool)
		switch {
		case errors.As(err, &unlisted):
			input = json.RawMessage(unlistedSchema)
		case err != nil:
			return err
		}
		if arguments, err = toolargs.Parse(input, words); err != nil {
			return err
		}
		for _, undefined := range toolargs.Undefined(input, arguments) {
			cmd.PrintErrln("parley: note: " + terminal.Line(undefined.Error()))
		}
	}
	if task {
		return unlisted.instead(startTask(cmd, c, tool, arguments))
	}
	result, err := c.CallTool(cmd.Context(), tool, arguments, c.onProgress())
	c.progress.Done()
	if err != nil {
		return unlisted.instead(err)
	}
	return finishCall(cmd, c, tool, result)
}

// unlistedSchema is the input schema of a tool that the server does not list.
const unlistedSchema = `{"additionalProperties":{"type":["integer","number","boolean","string"]}}`

// unlistedError reports that the server does not list a tool. The tool is called nevertheless: a gateway hides the
// tools that its policy always denies, and its audit log has to have the attempt.
type unlistedError struct{ err error }

func (e *unlistedError) Error() string { return e.err.Error() }

// instead returns the error to report for err, which is that of a call: e if the server does not know the tool. E may
// be nil.
func (e *unlistedError) instead(err error) error {
	if reported, ok := errors.AsType[*jsonrpc.Error](err); ok && e != nil &&
		reported.Code == jsonrpc.CodeInvalidParams {
		return e.err
	}
	return err
}

// finishCall saves and prints the result of a tool, and returns an error if the tool has failed.
func finishCall(cmd *cobra.Command, c *session, tool string, result *mcp.CallToolResult) error {
	saved, err := c.save(cmd, tool, result.Content...)
	if err != nil {
		return err
	}
	if err := printResult(cmd, result, saved, c.images); err != nil {
		return err
	}
	if result.IsError {
		return failure.WithCode(failure.ExitToolError, failure.Reported(errors.New("the tool returned an error")))
	}
	return nil
}

// schemaOf returns the input schema of a tool, or an *unlistedError.
func schemaOf(ctx context.Context, c *client.Client, tool string) (json.RawMessage, error) {
	var names []string
	for t, err := range c.Tools(ctx) {
		if err != nil {
			return nil, err
		}
		if t.Name == tool {
			return t.InputSchema, nil
		}
		names = append(names, t.Name)
	}
	if listsNotAll(names) {
		return describedSchema(ctx, c, tool)
	}
	return nil, &unlistedError{unknownName("tool", tool, names)}
}

// listsNotAll reports whether the tools that a server lists find others; see --discover of parley up.
func listsNotAll(names []string) bool {
	return slices.Contains(names, "search_tools") && slices.Contains(names, "describe_tool")
}

// describedSchema returns the input schema of a tool that the server does not list.
func describedSchema(ctx context.Context, c *client.Client, tool string) (json.RawMessage, error) {
	result, err := c.CallTool(ctx, "describe_tool", map[string]string{"name": tool})
	if err != nil {
		return nil, err
	}
	var text string
	for _, block := range result.Content {
		if t, ok := block.(*mcp.TextContent); ok {
			text += t.Text
		}
	}
	if result.IsError {
		return nil, &unlistedError{errors.New(text)}
	}
	var described struct {
		InputSchema json.RawMessage `json:"inputSchema"`
	}
	if err := schema.Decode([]byte(text), &described); err != nil || described.InputSchema == nil {
		return nil,
			errors.New("cannot read the definition of the tool that describe_tool returns: set the arguments with " +
				"--json")
	}
	return described.InputSchema, nil
}
