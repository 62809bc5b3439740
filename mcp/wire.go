package mcp

import jsonv2 "github.com/go-json-experiment/json"

// encodeOptions make encoding deterministic, so that encoded results can be compared, cached and
// digested.
var encodeOptions = jsonv2.JoinOptions(
	jsonv2.Deterministic(true),
	jsonv2.WithMarshalers(jsonv2.MarshalToFunc(encodeContent)),
)

// encode encodes v. Nil slices become []. MarshalJSON methods convert their value to a type without
// methods first.
func encode(v any) ([]byte, error) {
	return jsonv2.Marshal(v, encodeOptions)
}

var decodeOptions = jsonv2.WithUnmarshalers(jsonv2.UnmarshalFromFunc(decodeContent))

// decode decodes data strictly, including [Content] fields. UnmarshalJSON methods convert their
// receiver to a type without methods first.
func decode(data []byte, v any) error {
	return jsonv2.Unmarshal(data, v, decodeOptions)
}
