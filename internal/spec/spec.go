// Package spec validates messages with the official JSON Schemas of the Model Context Protocol. Only tests import it.
//
// The schemas and examples under testdata are unmodified; see NOTICE.
package spec

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"strings"

	"github.com/parley-mcp/parley/mcp"
)

// Tasks is the tasks extension, for functions that take a revision.
const Tasks mcp.Revision = "ext-tasks"

//go:embed testdata
var files embed.FS

// Schema returns the JSON Schema of rev, which must be one of [mcp.Revisions] or [Tasks]. It panics for any other.
func Schema(rev mcp.Revision) []byte {
	schema, err := files.ReadFile(path.Join("testdata", string(rev), "schema.json"))
	if err != nil {
		panic(fmt.Sprintf("unknown revision %q", rev))
	}
	return schema
}

// Definitions returns the definitions of the schema of rev by name.
func Definitions(rev mcp.Revision) map[string]json.RawMessage {
	var schema struct {
		Definitions map[string]json.RawMessage `json:"definitions"`
		Defs        map[string]json.RawMessage `json:"$defs"`
	}
	if err := json.Unmarshal(Schema(rev), &schema); err != nil {
		panic(fmt.Sprintf("schema of %s: %v", rev, err))
	}
	if schema.Defs != nil {
		return schema.Defs
	}
	return schema.Definitions
}

// Examples yields the published examples of rev by path: the name of a definition, a slash, and the name of the
// example. Only 2026-07-28 has examples.
func Examples(rev mcp.Revision) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		root := path.Join("testdata", string(rev), "examples")
		if _, err := fs.Stat(files, root); err != nil {
			return
		}
		err := fs.WalkDir(files, root, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := files.ReadFile(name)
			if err != nil {
				return err
			}
			if !yield(strings.TrimPrefix(name, root+"/"), content) {
				return fs.SkipAll
			}
			return nil
		})
		if err != nil {
			panic(fmt.Sprintf("examples of %s: %v", rev, err))
		}
	}
}
