package schema

import (
	"reflect"
	"strconv"
	"strings"
)

// findRecursive gives a name to each type that contains itself.
func (in *inference) findRecursive(t reflect.Type, done map[reflect.Type]bool) error {
	t, err := indirect(t)
	if err != nil {
		return &TypeError{Path: t.String(), Reason: err.Error()}
	}
	if representationOf(t) != plainType || done[t] && !in.open[t] {
		return nil
	}
	if in.open[t] {
		if _, ok := in.names[t]; !ok {
			in.names[t] = in.nameFor(t)
			in.ordered = append(in.ordered, t)
		}
		return nil
	}
	in.open[t], done[t] = true, true
	defer delete(in.open, t)
	switch t.Kind() {
	case reflect.Struct:
		fields, rest, err := fieldsOf(t)
		if err != nil {
			return err
		}
		for _, f := range fields {
			if err := in.findRecursive(f.typ, done); err != nil {
				return err
			}
		}
		if rest != nil {
			return in.findRecursive(rest, done)
		}
	case reflect.Slice, reflect.Array, reflect.Map:
		return in.findRecursive(t.Elem(), done)
	}
	return nil
}

// nameFor returns a unique name for t: its own name, without the characters that a
// reference would have to escape.
func (in *inference) nameFor(t reflect.Type) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_':
			return r
		}
		return '_'
	}, typeName(t))
	clean = strings.Trim(clean, "_")
	name := clean
	for i := 2; in.taken[name]; i++ {
		name = clean + "_" + strconv.Itoa(i)
	}
	in.taken[name] = true
	return name
}

// typeName is the name of t without the path of its package.
func typeName(t reflect.Type) string {
	if t.Name() == "" {
		return t.String()
	}
	name, arguments, generic := strings.Cut(t.Name(), "[")
	if !generic {
		return name
	}
	// Type arguments contain the full path of their packages.
	var short []string
	for argument := range strings.SplitSeq(strings.TrimSuffix(arguments, "]"), ",") {
		short = append(short, argument[strings.LastIndexAny(argument, "/")+1:])
	}
	return name + "[" + strings.Join(short, ",") + "]"
}
