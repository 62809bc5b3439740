package spec

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"

	"github.com/parley-mcp/parley/mcp"
)

// Kind is the kind of message that has a method.
type Kind int

// The kinds of methods.
const (
	Request Kind = iota + 1
	Notification
	// InputRequest is a request inside an InputRequiredResult, which is never a message.
	InputRequest
)

// String implements fmt.Stringer.
func (k Kind) String() string {
	switch k {
	case Request:
		return "request"
	case Notification:
		return "notification"
	case InputRequest:
		return "input request"
	default:
		return fmt.Sprintf("Kind(%d)", int(k))
	}
}

// Method is a method that a schema defines.
type Method struct {
	Name       string
	Definition string // such as CallToolRequest
	Kind       Kind
	// FromClient and FromServer report which roles send the method. The server sends input requests.
	FromClient bool
	FromServer bool
}

// Methods returns the methods that the schema of rev defines, sorted by name. The schema of [Tasks]
// does not define the senders: clients send its requests, and servers send its notifications.
func Methods(rev mcp.Revision) []Method {
	definitions := make(map[string]definition)
	for name, raw := range Definitions(rev) {
		var d definition
		if err := json.Unmarshal(raw, &d); err != nil {
			panic(fmt.Sprintf("schema of %s: %s: %v", rev, name, err))
		}
		definitions[name] = d
	}

	var methods []Method
	for name, d := range definitions {
		method := d.method()
		if method == "" || isUnion(name) {
			continue
		}
		m := Method{Name: method, Definition: name}
		switch in := func(union string) bool { return definitions[union].includes(name, method) }; {
		case in("ClientRequest") || in("ServerRequest"):
			m.Kind, m.FromClient, m.FromServer = Request, in("ClientRequest"), in("ServerRequest")
		case in("ClientNotification") || in("ServerNotification"):
			m.Kind, m.FromClient, m.FromServer = Notification, in("ClientNotification"), in("ServerNotification")
		case in("InputRequest"):
			m.Kind, m.FromServer = InputRequest, true
		case rev == Tasks && d.extends("JSONRPCRequest"):
			m.Kind, m.FromClient = Request, true
		case rev == Tasks && d.extends("JSONRPCNotification"):
			m.Kind, m.FromServer = Notification, true
		default:
			panic(fmt.Sprintf("schema of %s: %s has no sender", rev, name))
		}
		methods = append(methods, m)
	}
	slices.SortFunc(methods, func(a, b Method) int { return cmp.Compare(a.Name, b.Name) })
	return methods
}

func isUnion(definition string) bool {
	switch definition {
	case "ClientRequest", "ServerRequest", "ClientNotification", "ServerNotification":
		return true
	}
	return false
}

// definition is the part of a definition that contains the method.
type definition struct {
	Ref        string       `json:"$ref"`
	AllOf      []definition `json:"allOf"`
	AnyOf      []definition `json:"anyOf"`
	Properties struct {
		Method struct {
			Const string `json:"const"`
		} `json:"method"`
	} `json:"properties"`
}

func (d definition) method() string {
	if d.Properties.Method.Const != "" {
		return d.Properties.Method.Const
	}
	for _, part := range d.AllOf {
		if m := part.method(); m != "" {
			return m
		}
	}
	return ""
}

// includes reports whether the union d includes the definition with that name. The schemas write a union of one
// definition as the definition itself, so that one is found by its method.
func (d definition) includes(name, method string) bool {
	return d.method() == method || slices.ContainsFunc(d.AnyOf, func(part definition) bool {
		return path.Base(part.Ref) == name
	})
}

func (d definition) extends(name string) bool {
	return slices.ContainsFunc(d.AllOf, func(part definition) bool {
		return path.Base(part.Ref) == name
	})
}
