package config

import (
	"fmt"

	"github.com/tailscale/hujson"
)

// Input is a value that the user enters when a server is started; ${input:ID} refers to it.
type Input struct {
	ID          string
	Description string
	Default     string
	Options     []string // if not empty, the user chooses one
	Secret      bool
}

// inputMembers are the members of an input. The type, and members without an effect, change only how an editor asks.
var inputMembers = readers[Input]{
	"type": ignore[Input], "command": ignore[Input], "args": ignore[Input],
	"id": func(d *document, in *Input, v *hujson.Value, name string) (err error) {
		in.ID, err = d.text(v, name)
		return err
	},
	"description": func(d *document, in *Input, v *hujson.Value, name string) (err error) {
		in.Description, err = d.text(v, name)
		return err
	},
	"default": func(d *document, in *Input, v *hujson.Value, name string) (err error) {
		in.Default, err = d.text(v, name)
		return err
	},
	"options": func(d *document, in *Input, v *hujson.Value, name string) (err error) {
		in.Options, err = d.options(v, name)
		return err
	},
	"password": func(d *document, in *Input, v *hujson.Value, name string) (err error) {
		in.Secret, err = d.boolean(v, name)
		return err
	},
}

func ignore[T any](*document, *T, *hujson.Value, string) error { return nil }

// readInputs reads an array of inputs.
func (d *document) readInputs(v *hujson.Value) error {
	array, ok := v.Value.(*hujson.Array)
	if !ok {
		return d.errorf(v, "inputs must be an array")
	}
	for i := range array.Elements {
		in := &Input{}
		what := fmt.Sprintf("inputs[%d]", i)
		if err := read(d, in, inputMembers, &array.Elements[i], what, ": "); err != nil {
			return err
		}
		if in.ID == "" {
			return d.errorf(&array.Elements[i], "%s: id is missing", what)
		}
		d.inputs()[in.ID] = in
	}
	return nil
}

// options reads the options of an input: strings, or objects with a value.
func (d *document) options(v *hujson.Value, what string) ([]string, error) {
	array, ok := v.Value.(*hujson.Array)
	if !ok {
		return nil, d.errorf(v, "%s must be an array", what)
	}
	var options []string
	for i := range array.Elements {
		e := &array.Elements[i]
		if _, ok := e.Value.(*hujson.Object); ok {
			members, err := d.members(e, what)
			if err != nil {
				return nil, err
			}
			if e = find(members, "value"); e == nil {
				return nil, d.errorf(&array.Elements[i], "%s[%d]: value is missing", what, i)
			}
		}
		text, err := d.text(e, fmt.Sprintf("%s[%d]", what, i))
		if err != nil {
			return nil, err
		}
		options = append(options, text)
	}
	return options, nil
}

// inputs returns the inputs of the file by their ids. The file may define them after the servers that
// refer to them, so the servers have the map, not its values.
func (d *document) inputs() map[string]*Input {
	if d.inputsByID == nil {
		d.inputsByID = make(map[string]*Input)
	}
	return d.inputsByID
}
