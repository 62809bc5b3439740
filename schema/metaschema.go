package schema

import "strings"

// metaschemaName returns the name of the official document that a URI without
// fragment identifies, such as "draft/2020-12/meta/core". Either scheme will do.
func metaschemaName(uri string) (string, bool) {
	name, ok := strings.CutPrefix(uri, "http://json-schema.org/")
	if !ok {
		name, ok = strings.CutPrefix(uri, "https://json-schema.org/")
	}
	if name == "schema" {
		name = "draft/2020-12/schema"
	}
	return name, ok
}

// metaschema returns the official document called name, or "". The documents are
// constants: they are parsed when a schema refers to them, and not kept.
func metaschema(name string) string {
	if rest, ok := strings.CutPrefix(name, "draft/2020-12/"); ok {
		return metaschema2020(rest)
	}
	if rest, ok := strings.CutPrefix(name, "draft/2019-09/"); ok {
		return metaschema2019(rest)
	}
	return metaschemaOfDrafts(name)
}

// canonicalURI returns the identifier that an official document gives itself, if
// uri identifies one, else uri.
func canonicalURI(uri string) string {
	switch name, ok := metaschemaName(uri); {
	case !ok || metaschema(name) == "":
		return uri
	case strings.HasPrefix(name, "draft/"):
		return "https://json-schema.org/" + name
	default:
		return "http://json-schema.org/" + name
	}
}
