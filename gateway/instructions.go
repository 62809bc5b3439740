package gateway

import (
	"maps"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/host"
)

// maxInstructions is the maximum length of the instructions of all servers, in bytes.
const maxInstructions = 64 << 10

// instructions are those of one server.
type instructions struct{ text, prefix string }

// updateInstructions sets the instructions of the gateway's server: its own, followed by
// those of the servers in their order and by the servers that are missing.
func (g *Gateway) updateInstructions(of host.ServerStatus) {
	now := instructions{of.Server.Instructions, configs.Prefix(of.Config)}
	if now.text == "" {
		now = instructions{}
	}
	if g.instructions[of.Name] == now {
		return
	}
	if g.instructions[of.Name] = now; now.text == "" {
		delete(g.instructions, of.Name)
	}
	g.setInstructions()
}

// updateMissing notes in the instructions whether the lists of a server are missing. Lists do not wait for a server:
// a client that requests them before a server is ready learns here that they are not complete.
func (g *Gateway) updateMissing(of host.ServerStatus) {
	before := g.missing[of.Name]
	now := ""
	switch {
	case of.State == host.Removed || of.State == host.CallersOnly || of.Revision != "" || !g.Toolset.mayHave(&of):
	case of.State == host.NeedsLogin:
		now = of.Name + " (needs a login)"
	case of.State == host.Starting && before != "": // it is tried again
		now = before
	default:
		now = of.Name
	}
	if now == before {
		return
	}
	if g.missing[of.Name] = now; now == "" {
		delete(g.missing, of.Name)
	}
	g.setInstructions()
}

// setInstructions sets the instructions of the gateway's server.
func (g *Gateway) setInstructions() {
	all := []string{}
	if own := g.server.Instructions; own != "" {
		all = append(all, own)
	}
	size := 0
	for _, name := range g.servers {
		of, found := g.instructions[name]
		if !found {
			continue
		}
		text := of.text
		if len(g.instructions) > 1 || of.prefix != "" || g.server.Instructions != "" {
			text = of.withHeading(name)
		}
		if size+len(text) > maxInstructions {
			g.logger().Warn("instructions of a server left out: all instructions together are too long", "server", name,
				"limit", maxInstructions)
			continue
		}
		size += len(text)
		all = append(all, text)
	}
	if len(g.missing) > 0 {
		all = append(all,
			"The tools, resources and prompts of these servers are missing in the lists, because the servers are not "+
				"ready: "+
				strings.Join(slices.Sorted(maps.Values(g.missing)), ", ")+". List them again later.")
	}
	downstream.SetInstructions(g.server, strings.Join(all, "\n\n"))
}

// withHeading returns the instructions of a server with a heading.
func (i instructions) withHeading(server string) string {
	heading := "Instructions of the server " + server
	if i.prefix != "" {
		heading += ", whose tools and prompts have names that begin with " + i.prefix
	}
	return heading + ":\n\n" + i.text
}
