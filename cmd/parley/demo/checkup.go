//lint:file-ignore SA1019 Deprecated features are still supported.

package demo

import (
	"context"

	"github.com/parley-mcp/parley/server"
)

type findings struct {
	Checked int      `json:"checked"`
	Sick    []string `json:"sick"`
}

// checkup sends its findings to the client as log messages.
func checkup(ctx context.Context, _ struct{}) (findings, error) {
	log := server.Logger(ctx).WithGroup("checkup")
	found := findings{Sick: []string{}}
	for _, machine := range []struct {
		name string
		full int // percent of the disk in use
	}{{"anna", 12}, {"bert", 71}, {"carl", 93}} {
		log.DebugContext(ctx, "checking", "machine", machine.name)
		found.Checked++
		if machine.full > 90 {
			log.WarnContext(ctx, "the disk is nearly full", "machine", machine.name, "percent", machine.full)
			found.Sick = append(found.Sick, machine.name)
			continue
		}
		log.InfoContext(ctx, "the machine is healthy", "machine", machine.name)
	}
	return found, nil
}
