package gateway

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/principal"
)

// maxInstructions is the maximum length of the instructions of all servers, in bytes.
const maxInstructions = 64 << 10

// instructions implements server.Server.InstructionsFor.
func (g *Gateway) instructions(principal.Principal) string {
	text, leftOut := instructionsOf(g.server.Instructions, g.Toolset, g.host.Status())
	if leftOut != nil {
		g.tooLong.Log(context.Background(), g.logger(), slog.LevelWarn,
			"instructions of servers left out: all instructions together are too long",
			slog.Any("servers", leftOut), slog.Int("limit", maxInstructions))
	}
	return text
}

// instructionsOf returns the instructions of a gateway: its own, followed by the servers' instructions in order, up to
// maxInstructions, and the names of the servers whose lists are missing. Lists wait only some seconds for a server: a
// client that requests them before the server is ready learns here that they are incomplete.
func instructionsOf(own string, selected *Toolset, servers []host.ServerStatus) (text string, leftOut []string) {
	var all, missing []string
	if own != "" {
		all = append(all, own)
	}
	servers = slices.Clone(servers)
	number, size := 0, 0
	for i := range servers {
		if servers[i] = selected.filter(servers[i]); servers[i].Server.Instructions != "" {
			number++
		}
	}
	for _, s := range servers {
		text, prefix := s.Server.Instructions, s.Config.NamePrefix()
		switch {
		case text == "":
		case number > 1 || prefix != "" || own != "":
			heading := "Instructions of the server " + s.Name
			if prefix != "" {
				heading += ", whose tools and prompts have names that begin with " + prefix
			}
			text = heading + ":\n\n" + text
		}
		if size += len(text); size > maxInstructions {
			size -= len(text)
			leftOut = append(leftOut, s.Name)
		} else if text != "" {
			all = append(all, text)
		}
		switch {
		case s.State == host.CallersOnly || s.Revision != "" || !selected.mayHave(&s):
		case s.State == host.NeedsLogin:
			missing = append(missing, s.Name+" (needs a login)")
		default:
			missing = append(missing, s.Name)
		}
	}
	if slices.Sort(missing); missing != nil {
		all = append(all, "The tools, resources and prompts of these servers are missing in the lists, because the "+
			"servers are not ready: "+strings.Join(missing, ", ")+". List them again later.")
	}
	return strings.Join(all, "\n\n"), leftOut
}
