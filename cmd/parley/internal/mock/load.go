package mock

import (
	"github.com/parley-mcp/parley/cmd/parley/internal/yamldoc"
)

// Load returns the mock that the file at path describes.
func Load(path string, o Options) (*Mock, error) {
	d, err := yamldoc.Read(path)
	if err != nil {
		return nil, err
	}
	return FromYAML(d, o)
}
