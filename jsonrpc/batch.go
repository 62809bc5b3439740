package jsonrpc

import (
	"strconv"

	"github.com/parley-mcp/parley/internal/jsonscan"
)

// IsBatch reports whether data begins like a JSON array. Only revision 2025-03-26
// has batches.
func IsBatch(data []byte) bool {
	i := jsonscan.SkipSpace(data, 0)
	return i < len(data) && data[i] == '['
}

// SplitBatch checks data, a JSON array, as strictly as [Parse] checks a message,
// but leaves lone surrogates to Parse. It returns the elements as views of data;
// the caller parses each of them. A batch that is empty or longer than
// lim.MaxBatch is rejected as a whole. The error is an *InvalidMessageError.
func SplitBatch(data []byte, lim Limits) ([][]byte, error) {
	lim.setDefaults()
	s := newScanner(data, &lim)
	s.Surrogates = jsonscan.KeepSurrogates
	if !whole(&s) {
		return nil, malformed(&s, &lim)
	}
	if !IsBatch(data) {
		return nil, reject(CodeInvalidRequest, "batch must be a JSON array")
	}
	var parts [][]byte
	first := jsonscan.SkipSpace(data, jsonscan.SkipSpace(data, 0)+1)
	for i := first; i < len(data) && data[i] != ']'; {
		if len(parts) == lim.MaxBatch {
			err := reject(CodeInvalidRequest, "too many messages in one batch, the limit is "+strconv.Itoa(lim.MaxBatch))
			err.limit = &LimitError{"MaxBatch", lim.MaxBatch}
			return nil, err
		}
		end := jsonscan.SkipValue(data, i)
		parts = append(parts, data[i:end:end])
		if i = jsonscan.SkipSpace(data, end); data[i] == ',' {
			i = jsonscan.SkipSpace(data, i+1)
		}
	}
	if len(parts) == 0 {
		return nil, reject(CodeInvalidRequest, "batch is empty")
	}
	return parts, nil
}
