package jsonrpc

// inlineNames is how many names the stack of a scan's caller has room for, so
// that ordinary messages allocate nothing.
const inlineNames = 32

// linearNames is how many members of an object are compared one by one before a
// set takes over: below it comparing is cheaper, above it an attacker would make
// the scan quadratic.
const linearNames = 24

// openNames holds the member names of the objects that are being scanned, those
// of the innermost last: what finding duplicates needs.
//
// There is one per scan, and all objects share its growth. Were it handed down
// by value, an object deep inside would grow it, and each of its siblings again.
type openNames struct {
	list []string
}

// objectNames is the share that one open object has in openNames.
type objectNames struct {
	base  int // where its names begin in the list
	count int
	set   map[string]struct{} // its names, once there are more than linearNames
}

func (o *openNames) object() objectNames { return objectNames{base: len(o.list)} }

// close forgets the names of the innermost object.
func (o *openNames) close(n objectNames) { o.list = o.list[:n.base] }

// claim adds name to the innermost object and reports whether it is new there.
func (o *openNames) claim(n *objectNames, name string) bool {
	n.count++
	if n.set != nil {
		_, dup := n.set[name]
		n.set[name] = struct{}{}
		return !dup
	}
	for _, other := range o.list[n.base:] {
		if other == name {
			return false
		}
	}
	o.push(name)
	if n.count > linearNames {
		n.set = make(map[string]struct{}, 2*linearNames)
		for _, other := range o.list[n.base:] {
			n.set[other] = struct{}{}
		}
	}
	return true
}

// push does what append does, in a way that lets the compiler see that the
// first list, on the stack of the scan's caller, does not leave it.
func (o *openNames) push(name string) {
	n := len(o.list)
	if n == cap(o.list) {
		wider := make([]string, n, 2*n)
		copy(wider, o.list)
		o.list = wider
	}
	o.list = o.list[:n+1]
	o.list[n] = name
}
