package mcp

import (
	"errors"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/internal/jsonscan"
)

// encodeOptions make encoding deterministic, so that encoded results can be compared, cached and
// digested. Strings in raw JSON keep their notation.
var encodeOptions = jsonv2.JoinOptions(
	jsonv2.Deterministic(true),
	jsontext.PreserveRawStrings(true),
	jsonv2.WithMarshalers(jsonv2.MarshalToFunc(encodeContent)),
)

// encode encodes v. Nil slices become []. MarshalJSON methods convert their value to a type without
// methods first.
func encode(v any) ([]byte, error) {
	return jsonv2.Marshal(v, encodeOptions)
}

// decode decodes data strictly, including [Content] fields. UnmarshalJSON methods convert their
// receiver to a type without methods first.
func decode(data []byte, v any) error { return withContent.decode(data, v) }

var (
	withContent    = newDecoding(jsonv2.UnmarshalFromFunc(decodeContent))
	withoutContent = newDecoding(nil)
)

// decoding decodes strictly. Integers may be spelled 60000.0 or 6e4, as some programs write
// them. The JSON library rejects these spellings, and accepts them in a second attempt, so that
// other messages cost no more.
type decoding struct{ plain, spelled jsonv2.Options }

// newDecoding returns a decoding with functions for some types, or nil.
func newDecoding(functions *jsonv2.Unmarshalers) decoding {
	return decoding{
		plain:   jsonv2.WithUnmarshalers(functions),
		spelled: jsonv2.WithUnmarshalers(jsonv2.JoinUnmarshalers(functions, jsonv2.UnmarshalFromFunc(decodeInteger))),
	}
}

func (d decoding) decode(data []byte, v any) error {
	err := jsonv2.Unmarshal(data, v, d.plain)
	if semantic, ok := errors.AsType[*jsonv2.SemanticError](err); ok && semantic.JSONKind == '0' {
		return jsonv2.Unmarshal(data, v, d.spelled)
	}
	return err
}

// decodeInteger decodes an integer in any spelling.
func decodeInteger(dec *jsontext.Decoder, into *int64) error {
	if dec.PeekKind() != '0' {
		return errors.ErrUnsupported // null and errors are for the JSON library
	}
	literal, err := dec.ReadValue()
	if err != nil {
		return err
	}
	n, ok := jsonscan.Integer(literal)
	if !ok {
		return errors.New("must be an integer of 64 bits")
	}
	*into = n
	return nil
}
