package client

import (
	"encoding/json"
	"fmt"

	"github.com/parley-mcp/parley/schema"
)

// decodeResult decodes the result of a request, as strictly as all protocol data: names of
// members are case-sensitive and must not repeat.
func decodeResult[Result any](method string, raw json.RawMessage) (*Result, error) {
	result := new(Result)
	if err := schema.Decode(raw, result); err != nil {
		return nil, fmt.Errorf("%w: %s: cannot decode the result: %w", ErrInvalidResponse, method, err)
	}
	return result, nil
}
