package use

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/failure"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// unlistedSchema is the input schema of a tool that the server does not list.
const unlistedSchema = `{"additionalProperties":{"type":["integer","number","boolean","string"]}}`

// unlistedError reports that the server does not list a tool. The tool is called nevertheless: a gateway hides the
// tools that its policy always denies, and its audit log has to have the attempt.
type unlistedError struct{ err error }

func (e *unlistedError) Error() string { return e.err.Error() }

// lookUp returns an *unlistedError if the server does not list a tool, and no other errors.
func lookUp(ctx context.Context, c *client.Client, tool string) error {
	_, err := schemaOf(ctx, c, tool)
	if unlisted := new(unlistedError); errors.As(err, &unlisted) {
		return unlisted
	}
	return nil
}

// instead returns the error to report for the error of a call. If the server says, with any of several codes, that it
// does not know the tool, instead returns the error of mistaken. Mistaken returns nil if the server lists the tool; the
// error of the call is reported then.
func instead(err error, tool string, mistaken func() error) error {
	reported, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || reported.Code != jsonrpc.CodeInvalidParams && !saysUnknown(reported.Message, tool) {
		return err
	}
	if unlisted := mistaken(); unlisted != nil {
		return failure.Mistaken(unlisted, err)
	}
	return err
}

// unknownWords are words of errors about names that do not exist.
var unknownWords = []string{"unknown", "not found", "no such", "not exist", "not available", "not recognized",
	"invalid"}

// saysUnknown reports whether the text of an error says that the server does not know a name.
func saysUnknown(text, name string) bool {
	text = strings.ToLower(text)
	return strings.Contains(text, strings.ToLower(name)) && slices.ContainsFunc(unknownWords,
		func(word string) bool { return strings.Contains(text, word) })
}

// textOf returns the texts of content.
func textOf(content []mcp.Content) (text string) {
	for _, block := range content {
		if t, ok := block.(*mcp.TextContent); ok {
			text += t.Text
		}
	}
	return text
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
	text := textOf(result.Content)
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

// unknownResource returns the error for a resource that the server does not have.
func unknownResource(ctx context.Context, c *client.Client, uri string) error {
	var uris []string
	for r, err := range c.Resources(ctx) {
		if err != nil {
			break // the resource is unknown nevertheless
		}
		uris = append(uris, r.URI)
	}
	return unknownName("resource", uri, uris)
}

// unknownName returns the error for a tool or prompt that the server does not have.
func unknownName(kind, name string, names []string) error {
	advice := fmt.Sprintf("list the server's %ss with parley ls", kind)
	if slices.Contains(names, "search_tools") && slices.Contains(names, "call_tool") { // see --discover of parley up
		advice = "the server does not list all tools: find it with search_tools, and call it with call_tool"
	}
	return terminal.Unknown(kind, name, names, advice)
}
