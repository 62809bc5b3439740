package contain

import (
	"encoding/json"
	"log/slog"
	"reflect"
	"slices"

	"github.com/parley-mcp/parley/schema"
)

// Decode decodes a result into the value that into points to. It leaves out what cannot be decoded, and corrects what
// every program would correct in the same way. kept is raw with these changes; faults lists what was left out, and is
// nil if nothing was. If the result cannot be decoded at all, Decode returns the error of the strict decoder. raw must
// be a JSON object that has been checked.
func Decode(raw json.RawMessage, into any) (kept json.RawMessage, faults *Faults, err error) {
	if err = decode(raw, into); err == nil {
		return raw, nil, nil
	}
	v := reflect.ValueOf(into).Elem()
	var r repair
	kept, failed := r.value(raw, v.Type(), "")
	if failed != nil {
		return nil, nil, err
	}
	v.SetZero()
	if decode(kept, into) != nil {
		return nil, nil, err
	}
	if len(r.faults.list) == 0 {
		return kept, nil, nil
	}
	return kept, &r.faults, nil
}

// decode decodes strictly. If the type has a method for this, the method is faster than the JSON library,
// which scans its input first.
func decode(raw json.RawMessage, into any) error {
	if self, ok := into.(json.Unmarshaler); ok {
		return self.UnmarshalJSON(raw)
	}
	return schema.Decode(raw, into)
}

// Faults lists the parts of a result that were left out.
type Faults struct {
	list []fault
	more int // faults that are not in list
}

// fault is a part of a result, such as tools[3](search).annotations, that cannot be decoded.
type fault struct {
	path string
	err  error
}

// maxFaults limits how many faults of one result are logged.
const maxFaults = 8

func (f *Faults) add(path string, err error) {
	if len(f.list) == maxFaults {
		f.more++
		return
	}
	f.list = append(f.list, fault{path, err})
}

// Log logs a warning for each fault in the result of a method, with the attributes. f may be nil.
func (f *Faults) Log(logger *slog.Logger, method string, attributes ...any) {
	if f == nil {
		return
	}
	attributes = append(attributes, "method", method)
	for _, one := range f.list {
		logger.Warn("ignoring a part of a result that cannot be decoded",
			append(slices.Clip(attributes), "part", one.path, "error", one.err)...)
	}
	if f.more > 0 {
		logger.Warn("ignoring more parts of a result", append(attributes, "count", f.more)...)
	}
}
