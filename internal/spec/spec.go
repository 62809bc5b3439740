// Package spec holds the official JSON Schemas of the Model Context Protocol and holds messages
// against them. It is for tests; nothing that is built into a program imports it.
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

// Tasks stands for the tasks extension wherever a function takes a revision.
const Tasks mcp.Revision = "ext-tasks"

//go:embed testdata
var files embed.FS

// Schema returns the JSON Schema of rev, one of [mcp.Revisions] or [Tasks]. It panics on any other.
func Schema(rev mcp.Revision) []byte {
	schema, err := files.ReadFile(path.Join("testdata", string(rev), "schema.json"))
	if err != nil {
		panic(fmt.Sprintf("there is no schema of %q", rev))
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

// Examples yields the published examples of rev by path: the name of the definition that an example is
// of, a slash, and its own name. Only 2026-07-28 has any.
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
