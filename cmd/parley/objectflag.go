package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/toolargs"
)

// objectFlag is the flag --json, a JSON object.
type objectFlag struct{ text string }

func (f *objectFlag) add(cmd *cobra.Command, what string) {
	cmd.Flags().StringVar(&f.text, "json", "", "all "+what+" as a JSON `object`, @FILE, or - for stdin")
}

// maxObject is the maximum length of an object in a file, in bytes. Servers usually accept less.
const maxObject = 64 << 20

// read returns the object.
func (f *objectFlag) read(cmd *cobra.Command) (json.RawMessage, error) {
	text := f.text
	from := io.Reader(nil)
	if path, isFile := strings.CutPrefix(text, "@"); isFile {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("--json: %w", err)
		}
		defer file.Close()
		from = file
	} else if text == "-" {
		from = cmd.InOrStdin()
	}
	if from != nil {
		read, err := io.ReadAll(io.LimitReader(from, maxObject+1))
		switch {
		case err != nil:
			return nil, fmt.Errorf("--json: %w", err)
		case len(read) > maxObject:
			return nil, fmt.Errorf("--json: the object must not exceed %d bytes", maxObject)
		}
		text = string(read)
	}
	object, err := toolargs.ParseObject(text)
	if err != nil {
		return nil, fmt.Errorf("--json: %w", err)
	}
	return object, nil
}
