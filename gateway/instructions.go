package gateway

import (
	"fmt"
	"strings"
)

// maxInstructions is the maximum length of the instructions of all servers, in bytes.
const maxInstructions = 64 << 10

// updateInstructions sets the instructions of the gateway's server: its own, followed by
// those of the servers in their order.
func (g *Gateway) updateInstructions(server, text string) {
	if g.instructions[server] == text {
		return
	}
	g.instructions[server] = text
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
		all = append(all, fmt.Sprintf("Instructions of the server %s, whose tools and prompts have names that begin with %[1]s__:\n\n%s", name, text))
	}
	g.server.SetInstructions(strings.Join(all, "\n\n"))
}
