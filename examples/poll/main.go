// Command poll is a server with a page (MCP Apps). Hosts that show pages let the user vote in it; other hosts show the
// text of the result.
//
//	parley inspect -- go run ./examples/poll
//	parley call poll -- go run ./examples/poll
package main

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"sync"

	"github.com/parley-mcp/parley/apps"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

//go:embed poll.html
var html string

const page = "ui://poll/poll.html"

type poll struct {
	Question string   `json:"question"`
	Options  []option `json:"options"`
}

type option struct {
	Name  string `json:"name"`
	Votes int    `json:"votes"`
}

type vote struct {
	Option string `json:"option" enum:"Tea,Coffee,Water"`
}

func newServer() *server.Server {
	var mu sync.Mutex
	p := poll{"What do you drink?", []option{{"Tea", 0}, {"Coffee", 0}, {"Water", 0}}}
	current := func() poll { return poll{p.Question, slices.Clone(p.Options)} }

	s := &server.Server{Name: "poll", Version: "1.0.0"}
	apps.AddPage(s, apps.Page{URI: page, Name: "poll", Description: "Shows the votes, and takes one"}, html)
	server.AddTool(s, apps.Show(mcp.Tool{Name: "poll", Description: "Show the poll to the user"}, page),
		func(context.Context, struct{}) (poll, error) {
			mu.Lock()
			defer mu.Unlock()
			return current(), nil
		})
	// The page calls this tool. A host does not offer it to its model.
	server.AddTool(s, apps.Show(mcp.Tool{Name: "vote", Description: "Vote for an option"}, "", apps.App),
		func(_ context.Context, in vote) (poll, error) {
			mu.Lock()
			defer mu.Unlock()
			i := slices.IndexFunc(p.Options, func(o option) bool { return o.Name == in.Option })
			if i < 0 {
				return poll{}, fmt.Errorf("the poll has no option %q", in.Option)
			}
			p.Options[i].Votes++
			return current(), nil
		})
	return s
}

func main() { server.Main(newServer()) }
