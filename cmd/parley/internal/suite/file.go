// Package suite reads files with tests of an MCP server, runs the tests, and reports the results. [Schema] describes the
// files.
package suite

import (
	"regexp"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/cmd/parley/internal/yamldoc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// File is a file with tests.
type File struct {
	Path      string
	Target    string         // a URL or the name of a server; empty if the file has none or Command
	Command   []string       // the words of the command that starts the server
	Revisions []mcp.Revision // in which the tests run; none means the newest one that the server supports

	document *yamldoc.Document
	env      func(name string) (string, bool)
	timeout  time.Duration
	tests    []*test
}

// test is one test. The exported fields are the members in the file, which [Schema] describes.
type test struct {
	Name      string                      `json:"name"`
	Revisions []mcp.Revision              `json:"revisions"`
	Timeout   string                      `json:"timeout"`
	Call      string                      `json:"call"`
	Read      string                      `json:"read"`
	Prompt    string                      `json:"prompt"`
	Complete  *completion                 `json:"complete"`
	List      string                      `json:"list"`
	Method    string                      `json:"method"`
	Arguments jsontext.Value              `json:"arguments"`
	Params    jsontext.Value              `json:"params"`
	Answers   []answer                    `json:"answers"`
	Expect    expectation                 `json:"expect"`
	Capture   map[string]jsontext.Pointer `json:"capture"`

	at      jsontext.Pointer // the place in the file
	timeout time.Duration
}

type completion struct {
	Prompt   string            `json:"prompt"`
	Template string            `json:"template"`
	Argument string            `json:"argument"`
	Value    string            `json:"value"`
	Given    map[string]string `json:"given"`
}

type answer struct {
	Question string           `json:"question"`
	Action   mcp.ElicitAction `json:"action"`
	Content  jsontext.Value   `json:"content"`
}

type expectation struct {
	Error    jsontext.Value                      `json:"error"`
	Text     *string                             `json:"text"`
	Contains texts                               `json:"contains"`
	Excludes texts                               `json:"excludes"`
	Matches  texts                               `json:"matches"`
	Has      texts                               `json:"has"`
	Missing  texts                               `json:"missing"`
	Count    *int                                `json:"count"`
	At       map[jsontext.Pointer]jsontext.Value `json:"at"`
	Schema   map[jsontext.Pointer]jsontext.Value `json:"schema"`
	Within   string                              `json:"within"`

	matches []*regexp.Regexp
	schemas map[jsontext.Pointer]*schema.Schema
	within  time.Duration
}
