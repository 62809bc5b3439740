package mock

import (
	"fmt"
	"os"

	"github.com/parley-mcp/parley/cmd/parley/internal/traffic"
	"github.com/parley-mcp/parley/cmd/parley/internal/yamldoc"
)

// Load returns the mock that the file at path describes: a YAML file, or a recording. A recording is recognised by
// its first line.
func Load(path string, o Options) (*Mock, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !traffic.IsRecording(f) {
		d, err := yamldoc.Read(path)
		if err != nil {
			return nil, err
		}
		return FromYAML(d, o)
	}
	h, entries, err := traffic.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m, err := FromRecording(h, entries, o)
	if err != nil {
		return nil, fmt.Errorf("cannot mock the server of the recording %s: %w", path, err)
	}
	return m, nil
}
