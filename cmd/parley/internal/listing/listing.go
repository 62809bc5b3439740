// Package listing has the servers that a user can name, what a server lists, and the names of it that shells complete,
// which it keeps so that completion need not connect.
package listing

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/connection"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/toolargs"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Listing contains the lists of a server.
type Listing struct {
	Tools     []*mcp.Tool             `json:"tools"`
	Resources []*mcp.Resource         `json:"resources"`
	Templates []*mcp.ResourceTemplate `json:"resourceTemplates"`
	Prompts   []*mcp.Prompt           `json:"prompts"`
}

// All gets the lists that the server has capabilities for. It returns incomplete lists
// with client.ErrIncompleteList, and no lists with any other error.
func All(ctx context.Context, c *client.Client) (*Listing, error) {
	has := c.Server().Capabilities
	l := new(Listing)
	var incomplete error
	gotten := func(err error) bool {
		if errors.Is(err, client.ErrIncompleteList) {
			incomplete, err = errors.Join(incomplete, err), nil
		}
		return err == nil
	}
	var err error
	if l.Tools, err = Collect(has.Tools != nil, c.Tools(ctx)); !gotten(err) {
		return nil, err
	}
	if l.Resources, err = Collect(has.Resources != nil, c.Resources(ctx)); !gotten(err) {
		return nil, err
	}
	if l.Templates, err = Collect(has.Resources != nil, c.ResourceTemplates(ctx)); !gotten(err) {
		return nil, err
	}
	if l.Prompts, err = Collect(has.Prompts != nil, c.Prompts(ctx)); !gotten(err) {
		return nil, err
	}
	return l, incomplete
}

// Collect returns the elements of a list. It does not iterate unless has is true. A server with the resources
// capability may lack either resources/list or resources/templates/list, so an unknown method is an empty list. With an
// error, collect returns the elements that came before it.
func Collect[E any](has bool, elements iter.Seq2[*E, error]) ([]*E, error) {
	all := []*E{}
	if !has {
		return all, nil
	}
	for e, err := range elements {
		var reported *jsonrpc.Error
		switch {
		case errors.As(err, &reported) && reported.Code == jsonrpc.CodeMethodNotFound:
			return all, nil
		case err != nil:
			return all, err
		}
		all = append(all, e)
	}
	return all, nil
}

// Counts returns the length of each list. It omits empty lists other than the tools.
func (l *Listing) Counts() string {
	counts := []string{terminal.Count(len(l.Tools), "tool")}
	for _, c := range []struct {
		n    int
		noun string
	}{{len(l.Resources), "resource"}, {len(l.Templates), "template"}, {len(l.Prompts), "prompt"}} {
		if c.n > 0 {
			counts = append(counts, terminal.Count(c.n, c.noun))
		}
	}
	return strings.Join(counts, ", ")
}

// Print writes a table for each list that is not empty.
func (l *Listing) Print(w io.Writer, width int) error {
	var tools, resources, templates, prompts [][]string
	for _, t := range l.Tools {
		tools = append(tools, terminal.Row(t.Name, toolargs.Summary(t.InputSchema), cmp.Or(t.Description, t.Title)))
	}
	for _, r := range l.Resources {
		resources = append(resources, terminal.Row(r.URI, r.MimeType, cmp.Or(r.Description, r.Title, r.Name)))
	}
	for _, t := range l.Templates {
		templates = append(templates, terminal.Row(t.URITemplate, t.MimeType, cmp.Or(t.Description, t.Title, t.Name)))
	}
	for _, p := range l.Prompts {
		prompts = append(prompts, terminal.Row(p.Name, PromptSummary(p), cmp.Or(p.Description, p.Title)))
	}
	separator := ""
	for _, table := range []struct {
		head []string
		rows [][]string
	}{
		{terminal.Row("TOOL", "ARGUMENTS", "DESCRIPTION"), tools},
		{terminal.Row("RESOURCE", "TYPE", "DESCRIPTION"), resources},
		{terminal.Row("TEMPLATE", "TYPE", "DESCRIPTION"), templates},
		{terminal.Row("PROMPT", "ARGUMENTS", "DESCRIPTION"), prompts},
	} {
		if len(table.rows) == 0 {
			continue
		}
		if _, err := io.WriteString(w, separator); err != nil {
			return err
		}
		if err := terminal.Table(w, width, table.head, table.rows); err != nil {
			return err
		}
		separator = "\n"
	}
	return nil
}

// serverListing is a server and its lists, as JSON.
type serverListing struct {
	Server describedServer `json:"server"`
	*Listing
}

// NewServerListing returns the lists of the server of a client.
func NewServerListing(c *client.Client, lists *Listing) serverListing {
	return serverListing{describedServer{c.Revision(), c.Server()}, lists}
}

type describedServer struct {
	Revision mcp.Revision `json:"revision"`
	client.ServerDetails
}

// PromptSummary returns the names of the prompt's arguments, with optional arguments in brackets.
func PromptSummary(p *mcp.Prompt) string {
	var all []string
	for _, a := range p.Arguments {
		if a.Required {
			all = append(all, a.Name)
		} else {
			all = append(all, "["+a.Name+"]")
		}
	}
	return strings.Join(all, " ")
}

// PrintHead writes the name, the title, the description and a line below it.
func PrintHead(w io.Writer, name, title, description, line string) error {
	head := terminal.Line(name)
	if title != "" && title != name {
		head += " · " + terminal.Line(title)
	}
	var b strings.Builder
	b.WriteString(head + "\n")
	if description != "" {
		b.WriteString("\n" + terminal.Block(strings.TrimSpace(description)) + "\n")
	}
	if line != "" {
		b.WriteString("\n" + terminal.Line(line) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Names returns the lists for completion.
func (l *Listing) Names() *Lists {
	lists := &Lists{Tools: toolNames(l.Tools), Prompts: promptNames(l.Prompts), Resources: []Entry{},
		Templates: []Entry{}}
	for _, r := range l.Resources {
		lists.Resources = append(lists.Resources, Entry{Name: r.URI,
			Description: cmp.Or(r.Title, r.Name, r.Description)})
	}
	for _, t := range l.Templates {
		lists.Templates = append(lists.Templates,
			Entry{Name: t.URITemplate, Description: cmp.Or(t.Title, t.Name, t.Description)})
	}
	return lists
}

func toolNames(tools []*mcp.Tool) []Entry {
	entries := []Entry{}
	for _, t := range tools {
		e := Entry{Name: t.Name, Description: cmp.Or(t.Title, t.Description)}
		for _, a := range toolargs.Arguments(t.InputSchema) {
			e.Arguments = append(e.Arguments, Argument{
				Name: a.Name, Description: cmp.Or(a.Description, a.Type), Required: a.Required, Repeats: a.Repeats,
				Values: a.Values,
			})
		}
		entries = append(entries, e)
	}
	return entries
}

func promptNames(prompts []*mcp.Prompt) []Entry {
	entries := []Entry{}
	for _, p := range prompts {
		e := Entry{Name: p.Name, Description: cmp.Or(p.Title, p.Description)}
		for _, a := range p.Arguments {
			e.Arguments = append(e.Arguments,
				Argument{Name: a.Name, Description: cmp.Or(a.Description, a.Title), Required: a.Required})
		}
		entries = append(entries, e)
	}
	return entries
}

// OpenCache returns the cache for completion, in the user's cache directory or in $PARLEY_CACHE_DIR.
func OpenCache() (*Cache, error) {
	dir := os.Getenv("PARLEY_CACHE_DIR")
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return nil, err
		}
		dir = filepath.Join(user, "parley")
	}
	return NewCache(filepath.Join(dir, "completion")), nil
}

// Server is a server that a TARGET can name.
type Server struct {
	Name     string        `json:"name"`
	Kind     string        `json:"kind"` // command, http or connection
	Target   string        `json:"target"`
	Origin   string        `json:"origin,omitempty"` // where it is from
	Source   string        `json:"source,omitempty"` // the file and line
	Disabled bool          `json:"disabled,omitzero"`
	Problem  string        `json:"problem,omitempty"` // why the entry cannot be used
	Status   *ServerStatus `json:"status,omitempty"`

	Connection *connection.Info `json:"connection,omitempty"`
}

// ServerStatus is the state of a server.
type ServerStatus struct {
	State    string `json:"state"`
	Error    string `json:"error,omitempty"`
	Revision string `json:"revision,omitempty"`
	Tools    int    `json:"tools"`
}

func NewServer(s *config.Server) *Server {
	l := &Server{Name: s.Name, Kind: "http", Target: config.WithoutSecrets(s.URL), Origin: s.Origin, Source: s.Source,
		Disabled: s.Disabled}
	if s.Command != "" {
		l.Kind, l.Target = "command", config.MaskedCommand(s.Command, s.Args)
	}
	return l
}
