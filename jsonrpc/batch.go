package jsonrpc

import "strconv"

// IsBatch reports whether data begins like a JSON array. Revision 2025-03-26
// alone has batches.
func IsBatch(data []byte) bool {
	i := skipSpace(data, 0)
	return i < len(data) && data[i] == '['
}

// SplitBatch checks data, a JSON array, as strictly as [Parse] checks a message,
// and returns its elements as views of data, each to be parsed on its own. A
// batch that is empty or longer than lim.MaxBatch is refused whole. The error is
// an *InvalidMessageError.
func SplitBatch(data []byte, lim Limits) ([][]byte, error) {
	s := scanner{data: data, lim: lim}
	s.lim.setDefaults()
	if !s.whole() {
		return nil, s.err()
	}
	if !IsBatch(data) {
		return nil, refuse(CodeInvalidRequest, "a batch is a JSON array")
	}
	var parts [][]byte
	for i := skipSpace(data, skipSpace(data, 0)+1); i < len(data) && data[i] != ']'; {
		if len(parts) == s.lim.MaxBatch {
			return nil, refuse(CodeInvalidRequest, "a batch has at most "+strconv.Itoa(s.lim.MaxBatch)+" messages")
		}
		end := skipValue(data, i)
		parts = append(parts, data[i:end:end])
		if i = skipSpace(data, end); data[i] == ',' {
			i = skipSpace(data, i+1)
		}
	}
	if len(parts) == 0 {
		return nil, refuse(CodeInvalidRequest, "a batch is not empty")
	}
	return parts, nil
}
