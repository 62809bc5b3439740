package config

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tailscale/hujson"

	"github.com/parley-mcp/parley/cmd/parley/internal/servers/confine"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/jsonedit"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/mcp"
)

// fields are the members of an object that is read into a T, in the order in which parley writes them.
type fields[T any] []field[T]

// field is a member. At returns where its value is: a pointer, whose type says how the value is read and written, or a
// place.
type field[T any] struct {
	name string
	at   func(*T) any
}

// place is where a value is whose form its type does not say.
type place interface {
	read(d *document, v *hujson.Value, what string) error
	// written returns the value for encoding/json, or nil if the object does not have the member.
	written() any
}

func (f fields[T]) names() (names []string) {
	for _, member := range f {
		names = append(names, member.name)
	}
	return names
}

// object returns the members that a value has.
func (f fields[T]) object(of *T) (o Object) {
	for _, member := range f {
		if value := written(member.at(of)); value != nil {
			o = append(o, Member{member.name, value})
		}
	}
	return o
}

// read reads the members of an object. In messages, their names are what, separator and their own name.
func read[T any](d *document, to *T, by fields[T], v *hujson.Value, what, separator string) error {
	members, err := d.members(v, what)
	if err != nil {
		return err
	}
	for _, m := range members {
		name := what + separator + m.name
		if i := slices.IndexFunc(by, func(f field[T]) bool { return f.name == m.name }); i >= 0 {
			err = d.value(by[i].at(to), m.value, name)
		} else {
			err = d.unknown(m.value, m.name, name, by.names())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readOwn is read for an object that no other program has in its files: an unknown member is always an error.
func readOwn[T any](d *document, to *T, by fields[T], v *hujson.Value, what, separator string) error {
	own := *d
	own.foreign, own.own = false, true
	return read(&own, to, by, v, what, separator)
}

// value reads a value to a place or a pointer.
func (d *document) value(at any, v *hujson.Value, what string) (err error) {
	switch at := at.(type) {
	case place:
		return at.read(d, v, what)
	case *string:
		*at, err = d.text(v, what)
	case **string:
		*at = new(string)
		**at, err = d.text(v, what)
	case *bool:
		*at, err = d.boolean(v, what)
	case *int:
		n, err := d.limit(v, what)
		*at = int(n)
		return err
	case *int64:
		*at, err = d.limit(v, what)
	case *time.Duration:
		*at, err = d.duration(v, what)
	case *[]string:
		*at, err = d.texts(v, what)
	case *[]Pair:
		*at, err = d.pairs(v, what)
	case *map[string]string:
		*at, err = d.names(v, what)
	case *host.Action:
		i, err := d.oneOf(v, what, "allow", "ask", "deny")
		*at = []host.Action{host.Allow, host.Ask, host.Deny}[i]
		return err
	case *mcp.Revision:
		var text string
		if text, err = d.text(v, what); err == nil && !mcp.Revision(text).Known() {
			err = d.errorf(v, "%s must be one of %q, not %q", what, mcp.Revisions(), text)
		}
		*at = mcp.Revision(text)
	case *[]netip.Prefix:
		*at, err = d.networks(v, what)
	case *host.Sharing:
		i, err := d.oneOf(v, what, "automatic", "everyone", "user", "session")
		*at = host.Sharing(i)
		return err
	case *host.InputLimits:
		return readOwn(d, at, inputLimitFields, v, what, ".")
	case *[]host.Extension:
		return d.extensions(at, v, what)
	case **confine.Rules:
		*at = new(confine.Rules)
		return readOwn(d, *at, confineFields, v, what, ".")
	default:
		err = fmt.Errorf("%s: values of type %T cannot be read", what, at)
	}
	return err
}

// written is the opposite of value: it returns what encoding/json writes, or nil for a zero value.
func written(at any) any {
	if p, ok := at.(place); ok {
		return p.written()
	}
	v := reflect.ValueOf(at).Elem()
	if v.IsZero() {
		return nil
	}
	switch value := v.Interface().(type) {
	case []Pair:
		return Strings(value)
	case time.Duration:
		return value.String()
	case host.Sharing:
		return value.String()
	case host.InputLimits:
		return inputLimitFields.object(&value)
	case []host.Extension:
		var all Object
		for _, e := range value {
			all = append(all, Member{e.ID, extensionFields.object(&e)})
		}
		return all
	case *confine.Rules: // empty rules are not the same as none
		return confineFields.object(value)
	default:
		return value
	}
}

// absent is the place of a hint that is false if the member is true.
type absent struct{ hint **bool }

func (a absent) read(d *document, v *hujson.Value, what string) error {
	is, err := d.boolean(v, what)
	if *a.hint = nil; is {
		*a.hint = new(false)
	}
	return err
}

func (a absent) written() any {
	if *a.hint == nil {
		return nil
	}
	return true
}

// reader is a place of a member that is not written, such as one of another program.
type reader func(d *document, v *hujson.Value, what string) error

func (r reader) read(d *document, v *hujson.Value, what string) error { return r(d, v, what) }

func (reader) written() any { return nil }

// special is a place of a value that is read in its own way, and written as the value of a pointer or a place.
type special struct {
	reader
	to any
}

func (s special) written() any { return written(s.to) }

// list is a place of strings that add to those of other members. It differs from none if it is empty.
type list struct{ to *[]string }

func (l list) read(d *document, v *hujson.Value, what string) error {
	texts, err := d.texts(v, what)
	*l.to = append(append([]string{}, *l.to...), texts...)
	return err
}

func (l list) written() any {
	if *l.to == nil {
		return nil
	}
	return *l.to
}

// object is a place of an object of parley's own form.
type object[T any] struct {
	to *T
	by fields[T]
}

func (o object[T]) read(d *document, v *hujson.Value, what string) error {
	return readOwn(d, o.to, o.by, v, what, ".")
}

func (o object[T]) written() any {
	if members := o.by.object(o.to); members != nil {
		return members
	}
	return nil
}

// Object is a JSON object whose members have an order.
type Object []Member

// Member is a member of an Object.
type Member struct {
	Name  string
	Value any
}

// String returns the name and the value in words, for people.
func (m Member) String() string {
	switch value := m.Value.(type) {
	case bool:
		return m.Name // it is true
	case string:
		return m.Name + " " + value
	case []string:
		return m.Name + " " + strings.Join(value, " ")
	}
	text, _ := jsonedit.Encode(m.Value, "", "") // values of files always encode
	return m.Name + " " + string(text)
}

// Without returns the members with other names.
func (o Object) Without(names ...string) (rest Object) {
	return slices.DeleteFunc(slices.Clone(o), func(m Member) bool { return slices.Contains(names, m.Name) })
}

// MarshalJSON implements json.Marshaler.
func (o Object) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		name, err := jsonedit.Encode(m.Name, "", "")
		if err != nil {
			return nil, err
		}
		value, err := jsonedit.Encode(m.Value, "", "")
		if err != nil {
			return nil, err
		}
		b = append(append(append(b, name...), ':'), value...)
	}
	return append(b, '}'), nil
}

// Strings returns an object of strings, or nil if there are none.
func Strings(pairs []Pair) (o Object) {
	for _, p := range pairs {
		o = append(o, Member{p.Name, p.Value})
	}
	return o
}
