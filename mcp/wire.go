package mcp

import jsonv2 "github.com/go-json-experiment/json"

// encodeOptions give every value one encoding, so that results can be compared, cached and digested
// as bytes.
var encodeOptions = jsonv2.JoinOptions(
	jsonv2.Deterministic(true),
	jsonv2.WithMarshalers(jsonv2.MarshalToFunc(encodeContent)),
)

// encode encodes v, nil slices as []. MarshalJSON methods pass it their value under a type without
// methods.
func encode(v any) ([]byte, error) {
	return jsonv2.Marshal(v, encodeOptions)
}

var decodeOptions = jsonv2.WithUnmarshalers(jsonv2.UnmarshalFromFunc(decodeContent))

// decode is strict, and knows how to decode [Content] fields. UnmarshalJSON methods pass it their
// receiver under a type without methods.
func decode(data []byte, v any) error {
	return jsonv2.Unmarshal(data, v, decodeOptions)
}
