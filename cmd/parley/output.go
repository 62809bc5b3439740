package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
)

// output is the output format of a command.
type output string

const (
	outputText output = "text"
	outputJSON output = "json"
)

func (o *output) add(cmd *cobra.Command) {
	*o = outputText
	cmd.Flags().VarP(o, "output", "o", "output format: text, or json for one JSON value")
}

// String implements pflag.Value.
func (o *output) String() string { return string(*o) }

// Set implements pflag.Value.
func (o *output) Set(s string) error {
	switch output(s) {
	case outputText, outputJSON:
		*o = output(s)
		return nil
	}
	return errors.New("must be text or json")
}

// Type implements pflag.Value.
func (o *output) Type() string { return "format" }

// printJSON prints v as one JSON value.
func printJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(v); err != nil {
		return err
	}
	_, err := io.WriteString(w, terminal.JSON(b.String()))
	return err
}
