package gateway

import (
	"strings"

	"github.com/parley-mcp/parley/host"
)

// maxInstructions is the maximum length of the instructions of all servers, in bytes.
const maxInstructions = 64 << 10

// updateInstructions sets the instructions of the gateway's server: its own, followed by
// those of the servers in their order.
func (g *Gateway) updateInstructions(of host.ServerStatus) {
	text := instructionsOf(&of)
	if g.instructions[of.Name] == text {
		return
	}
	g.instructions[of.Name] = text
	all := []string{}
	if own := g.server.Instructions; own != "" {
		all = append(all, own)
	}
	size := 0
	for _, name := range g.servers {
		text := g.instructions[name]
		if text == "" {
			continue
		}
		if size+len(text) > maxInstructions {
			g.logger().Warn("instructions of a server left out: all instructions together are too long", "server", name, "limit", maxInstructions)
			continue
		}
		size += len(text)
		all = append(all, text)
	}
	g.server.SetInstructions(strings.Join(all, "\n\n"))
}

// instructionsOf returns the instructions of a server with a heading, or "" if it has none.
func instructionsOf(s *host.ServerStatus) string {
	heading := "Instructions of the server " + s.Name
	switch {
	case s.Server.Instructions == "":
		return ""
	case s.Prefix != "":
		heading += ", whose tools and prompts have names that begin with " + s.Prefix
	}
	return heading + ":\n\n" + s.Server.Instructions
}
