package server

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/parley-mcp/parley/internal/jsonscan"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/schema"
)

// conform validates an object as models and clients write it: see withoutNulls, and [schema.Schema.Unquote] for arrays
// and objects in strings. Unquoted still has the nulls.
func conform(s *schema.Schema, object json.RawMessage, unknown bool) (valid, unquoted json.RawMessage, err error) {
	if valid, err = withoutNulls(s, object, unknown); err == nil {
		return valid, object, nil
	}
	if unquoted = s.Unquote(object); len(unquoted) == len(object) {
		return nil, nil, err
	}
	valid, again := withoutNulls(s, unquoted, unknown)
	if again != nil || !isObject(valid) {
		return nil, nil, err // about what was sent
	}
	return valid, unquoted, nil
}

// withoutNulls validates an object. Some models and clients write null for a member that they leave out, so
// withoutNulls removes the members with a null that the schema rejects, if the object is valid then. Members of
// members are not removed, and members that the schema does not have only if unknown is set.
//
// A validation names a few members only, and takes time in proportion to the object. After some of them, withoutNulls
// removes all nulls but those of required members.
func withoutNulls(s *schema.Schema, object json.RawMessage, unknown bool) (json.RawMessage, error) {
	return removeNulls(s, s.Validate, object, unknown)
}

// removeNulls is withoutNulls with the function that validates.
func removeNulls(
	s *schema.Schema, validate func([]byte) error, object json.RawMessage, unknown bool,
) (json.RawMessage, error) {
	err := validate(object)
	for pass := 1; err != nil; pass++ {
		var rejected []string
		invalid, ok := errors.AsType[*schema.ValidationError](err)
		if ok {
			rejected = rejectedNulls(invalid, object, unknown)
		}
		switch {
		case rejected == nil:
			return nil, err
		case pass <= exactPasses:
			object = jsonrpc.Without(object, rejected...)
		case pass == exactPasses+1:
			object = withoutOptionalNulls(s, object)
		default:
			return nil, err
		}
		err = validate(object)
	}
	return object, nil
}

// exactPasses is how often withoutNulls removes only the members that a validation has named.
const exactPasses = 3

// rejectedNulls returns the members with null that an error is about.
func rejectedNulls(invalid *schema.ValidationError, object json.RawMessage, unknown bool) (names []string) {
	for _, issue := range invalid.Issues {
		path, ok := strings.CutPrefix(issue.Path, "/")
		if !ok || strings.Contains(path, "/") || issue.Got != "null" && !unknown {
			continue
		}
		name := pointerUnescape.Replace(path)
		if value, _ := jsonrpc.Get(object, name); string(value) == "null" {
			names = append(names, name)
		}
	}
	return names
}

// withoutOptionalNulls returns an object without members that are null, except for those that the schema requires.
func withoutOptionalNulls(s *schema.Schema, object json.RawMessage) json.RawMessage {
	required := make(map[string]bool)
	names, _ := jsonrpc.Get(s.JSON(), "required")
	for name := range jsonscan.Elements(names) {
		required[jsonrpc.Unquote(name)] = true
	}
	kept := append(make(json.RawMessage, 0, len(object)), '{')
	for name, value := range jsonrpc.All(object) {
		if string(value) == "null" && !required[name] {
			continue
		}
		if len(kept) > 1 {
			kept = append(kept, ',')
		}
		kept = append(append(jsonrpc.AppendString(kept, name), ':'), value...)
	}
	return append(kept, '}')
}
