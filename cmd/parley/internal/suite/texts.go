package suite

import "github.com/parley-mcp/parley/schema"

// texts are strings. In a file, one string needs no array.
type texts []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *texts) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '"' {
		*t = make(texts, 1)
		return schema.Decode(raw, &(*t)[0])
	}
	return schema.Decode(raw, (*[]string)(t))
}
