package schema

import (
	"reflect"
	"sync"
)

// shape is the part of a Go type that the decoder and the encoder need and that the
// JSON library does not handle: defaults, integers, and members whose null means
// absent. Shapes form a graph, as types do.
type shape struct {
	kind    shapeKind
	members map[string]*memberShape // of a struct
	order   []*memberShape
	elem    *shape // of a list, a map, the rest of a struct, or of a type that writes itself

	needs needs // of this shape and of all shapes that it contains
	plan  *plan // of the type for which shapeOf was called, or nil
}

type shapeKind uint8

const (
	shapeOpaque shapeKind = iota
	shapeInteger
	shapeStruct
	shapeMap
	shapeList
	shapeWriter // a type that writes itself, and is read as elem describes
)

// needs is the set of changes to the JSON library's behaviour that a type requires.
type needs uint8

const (
	needsDefaults  needs = 1 << iota // some member has a default
	needsIntegers                    // 1.0 must be read as an integer
	needsOmission                    // a nil pointer must be omitted
	needsDurations                   // a time.Duration occurs
	needsDynamic                     // an interface can contain any value
)

type memberShape struct {
	name   string
	shape  *shape
	preset []byte  // the default, as JSON, or nil
	nulls  changes // the changes that remove the member if it is null
	value  bool    // a struct that is no pointer: its fields exist even if it is absent
}

// shapes caches *shape or error by reflect.Type.
var shapes sync.Map

// shapeOf returns the shape of t. Pointers do not matter.
func shapeOf(t reflect.Type) (*shape, error) {
	if known, ok := shapes.Load(t); ok {
		s, _ := known.(*shape)
		err, _ := known.(error)
		return s, err
	}
	g := shaper{known: map[reflect.Type]*shape{}}
	s, err := g.shape(t)
	var result any = s
	if err != nil {
		result = err
	} else {
		g.spread()
		s.plan = planner{}.plan(t)
	}
	result, _ = shapes.LoadOrStore(t, result)
	s, _ = result.(*shape)
	err, _ = result.(error)
	return s, err
}

type shaper struct {
	known map[reflect.Type]*shape
	all   []*shape
}

func (g *shaper) shape(t reflect.Type) (*shape, error) {
	t, err := indirect(t)
	if err != nil {
		return nil, &TypeError{Path: t.String(), Reason: err.Error()}
	}
	if s, ok := g.known[t]; ok {
		return s, nil
	}
	s := &shape{}
	g.known[t] = s
	g.all = append(g.all, s)
	switch representationOf(t) {
	case durationType:
		s.needs = needsDurations
	case plainType:
		err = g.describe(s, t)
	case customType:
		if !readsItself(t) {
			s.kind, s.elem = shapeWriter, &shape{}
			g.all = append(g.all, s.elem)
			err = g.describe(s.elem, t)
		}
	}
	return s, err
}

// describe adds to s how a plain type is read and written.
func (g *shaper) describe(s *shape, t reflect.Type) (err error) {
	switch {
	case isBytes(t):
	case isInteger(t):
		s.kind, s.needs = shapeInteger, needsIntegers
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Array:
		s.kind = shapeList
		s.elem, err = g.shape(t.Elem())
	case t.Kind() == reflect.Map:
		s.kind = shapeMap
		s.elem, err = g.shape(t.Elem())
	case t.Kind() == reflect.Interface:
		s.needs = needsDynamic
	case t.Kind() == reflect.Struct:
		s.kind = shapeStruct
		err = g.fill(s, t)
	}
	return err
}

func (g *shaper) fill(s *shape, t reflect.Type) error {
	fields, rest, err := fieldsOf(t)
	if err != nil {
		return err
	}
	s.members = make(map[string]*memberShape, len(fields))
	for _, f := range fields {
		inner, err := indirect(f.typ)
		if err != nil {
			return &TypeError{Path: typeName(t) + "." + f.goName, Reason: err.Error()}
		}
		m := &memberShape{name: f.name}
		if f.quoted {
			m.shape = &shape{}
		} else if m.shape, err = g.shape(f.typ); err != nil {
			return err
		}
		if text, ok := f.tag.Lookup("default"); ok {
			m.preset = presetOf(text, scalarKind(inner, f.quoted))
			s.needs |= needsDefaults
		}
		empty := inner.Kind() == reflect.Slice || inner.Kind() == reflect.Map // null is its zero value
		if (f.optional || m.preset != nil || empty) && representationOf(inner) != customType && inner.Kind() != reflect.Interface {
			m.nulls = dropOptional
		}
		m.value = f.typ.Kind() == reflect.Struct && m.shape.kind == shapeStruct
		if f.typ.Kind() == reflect.Pointer {
			m.nulls |= dropNulls
			s.needs |= needsOmission
		}
		s.members[f.name] = m
		s.order = append(s.order, m)
	}
	if rest != nil {
		s.elem, err = g.shape(rest)
	}
	return err
}

// spread adds the needs of each shape to the shapes that contain it.
func (g *shaper) spread() {
	for changed := true; changed; {
		changed = false
		for _, s := range g.all {
			n := s.needs
			switch {
			case s.kind == shapeWriter:
				n |= s.elem.needs & needsIntegers
			case s.elem != nil:
				n |= s.elem.needs
			}
			for _, m := range s.order {
				n |= m.shape.needs
			}
			if n != s.needs {
				s.needs, changed = n, true
			}
		}
	}
}
