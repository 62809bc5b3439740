package serverjson

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/cmd/parley/internal/nearest"
)

// SchemaID is the URI of the current schema.
const SchemaID = schemaPrefix + current + schemaSuffix

const (
	schemaPrefix = "https://static.modelcontextprotocol.io/schemas/"
	schemaSuffix = "/server.schema.json"
	current      = "2025-12-11"
)

// changes are the versions of the schema before the current one, with what the next version has changed.
var changes = []struct{ version, next string }{
	{"2025-07-09", "write the names of members in camel case, such as registryType"},
	{"2025-09-16", "remove status, which the registry manages"},
	{"2025-09-29", "write the version of an OCI image in its identifier, and remove its registryBaseUrl"},
	{"2025-10-11", ""},
	{"2025-10-17", ""},
}

const (
	publisherKey = "io.modelcontextprotocol.registry/publisher-provided"
	maxPublisher = 4096 // bytes of its value
)

// checkServer checks the whole file.
func (p place) checkServer() {
	p.only("$schema", "name", "title", "description", "version", "websiteUrl", "repository", "icons", "packages", "remotes", "_meta")
	p.member("$schema").checkSchema()
	p.member("name").checkName()
	p.member("version").checkVersion()
	if title := p.member("title"); title.text() != "" && strings.TrimSpace(title.text()) == "" {
		title.problem("title must have a character that is not white space", "write a title, or remove the member")
	}
	p.member("websiteUrl").checkHTTPS()
	p.member("repository").checkRepository()
	for _, icon := range p.member("icons").elements() {
		icon.only("src", "mimeType", "sizes", "theme")
		icon.member("src").checkHTTPS()
	}
	for _, pkg := range p.member("packages").elements() {
		pkg.checkPackage()
	}
	for _, remote := range p.member("remotes").elements() {
		remote.checkRemote()
	}
	if len(p.member("packages").elements())+len(p.member("remotes").elements()) == 0 {
		p.warning("server has no packages and no remotes, so that no client can use it", "add packages that clients run, or remotes that they connect to")
	}
	p.member("_meta").checkMeta()
}

// checkSchema checks the version of the schema.
func (p place) checkSchema() {
	id := p.text()
	use := `write "` + SchemaID + `"`
	at := slices.IndexFunc(changes, func(c struct{ version, next string }) bool { return id == schemaPrefix+c.version+schemaSuffix })
	switch {
	case id == "" || id == SchemaID:
	case at >= 0:
		for _, c := range changes[at:] {
			use += strings.TrimSuffix("; "+c.next, "; ")
		}
		p.warning("schema "+changes[at].version+" is old; the current one is "+current, use)
	case strings.HasPrefix(id, schemaPrefix) && id > SchemaID:
		p.warning("schema is newer than "+current+", which parley knows, so that findings can be missing or wrong", "use a newer version of parley")
	default:
		p.problem("schema is unknown", use)
	}
}

// checkName checks the name of the server: a namespace in reverse-DNS form, a slash and a name.
func (p place) checkName() {
	if p.text() == "" {
		return
	}
	namespace, name, _ := strings.Cut(p.text(), "/")
	fix := fixes["name"]
	switch {
	case strings.Count(p.text(), "/") != 1:
		p.problem("name must have exactly one slash", fix)
	case !isLabel(namespace, ".-"):
		p.problem("namespace must have two or more letters, digits, dots and hyphens, and begin and end with a letter or digit", fix)
	case !isLabel(name, "._-"):
		p.problem("name after the slash must have two or more letters, digits, dots, underscores and hyphens, and begin and end with a letter or digit", fix)
	case !strings.Contains(namespace, "."):
		p.warning("namespace is not a domain in reverse order, so that no user can prove to own it", fix)
	}
}

// isLabel reports whether a text has two or more letters, digits and other characters, which are not at its ends.
func isLabel(text, others string) bool {
	return len(text) >= 2 && strings.Trim(text, others) == text && !strings.ContainsFunc(text, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune(others, r))
	})
}

// checkVersion checks that a version is a single one.
func (p place) checkVersion() {
	switch {
	case p.text() == "latest":
		p.problem(`version must not be "latest"`, fixes["version"])
	case isRange(p.text()):
		p.problem("version must not be a range", fixes["version"])
	}
}

// isRange reports whether a version is a range, such as ^1.2, 1 - 2, 1.2 || 1.3 or 1.x.
func isRange(version string) bool {
	version = strings.TrimSpace(version)
	if rest := strings.TrimLeft(version, "^~<>= "); rest != version {
		return rest != "" && (rest[0] == 'v' || '0' <= rest[0] && rest[0] <= '9')
	}
	if strings.Contains(version, "||") || strings.Contains(version, " - ") {
		return true
	}
	release, _, _ := strings.Cut(version, "-")
	parts := strings.Split(release, ".")
	if len(parts) < 2 || len(parts) > 3 {
		return false
	}
	placeholder := false
	for _, part := range parts {
		if part == "x" || part == "X" || part == "*" {
			placeholder = true
		} else if _, err := strconv.ParseUint(strings.TrimPrefix(part, "v"), 10, 64); err != nil {
			return false
		}
	}
	return placeholder
}

// checkHTTPS checks an absolute URL.
func (p place) checkHTTPS() {
	if p.text() == "" {
		return
	}
	if u, err := url.Parse(p.text()); err != nil || u.Scheme != "https" || u.Host == "" {
		p.problem("URL must begin with https:// and have a host", "")
	}
}

// hosts are the hosts of the sources of a repository.
var hosts = map[string]string{"github": "github.com", "gitlab": "gitlab.com"}

func (p place) checkRepository() {
	p.only("url", "source", "id", "subfolder")
	source, address := p.member("source"), p.member("url")
	host := hosts[source.text()]
	switch {
	case source.text() == "" || address.text() == "":
	case host == "":
		source.problem("source must be github or gitlab", "leave the repository out if its source code is elsewhere")
	case !isRepository(address.text(), host):
		address.problem(fmt.Sprintf("URL must be that of a repository at %s", host), "write https://"+host+"/OWNER/REPOSITORY")
	}
	folder := p.member("subfolder")
	for _, part := range strings.Split(folder.text(), "/") {
		if folder.text() != "" && (part == "" || part == "." || part == ".." || !isPath(part)) {
			folder.problem("subfolder must be a relative path of letters, digits, dots, hyphens and underscores, without . and .. in it", "write a path such as src/server")
			break
		}
	}
}

// isRepository reports whether a URL is that of a repository: an owner and a name, or several groups at gitlab.com.
func isRepository(address, host string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || strings.TrimPrefix(u.Host, "www.") != host || u.RawQuery != "" || u.Fragment != "" {
		return false
	}
	parts := strings.Split(strings.Trim(u.Path, "/"), "/")
	return len(parts) >= 2 && (len(parts) == 2 || host == "gitlab.com") && !slices.ContainsFunc(parts, func(part string) bool { return !isPath(part) })
}

// isPath reports whether a text is a part of a path of letters, digits, dots, hyphens and underscores.
func isPath(part string) bool { return isLabel("a"+part+"a", "._-") && part != "" }

// checkMeta checks the metadata of the publisher.
func (p place) checkMeta() {
	for _, name := range p.names() {
		if name != publisherKey {
			p.member(name).warning("the official registry drops this member", "move it into "+publisherKey)
		}
	}
	provided := p.member(publisherKey)
	if text, err := json.Marshal(provided.value); err == nil && len(text) > maxPublisher {
		provided.problem(fmt.Sprintf("value must have at most %d bytes of JSON, but has %d", maxPublisher, len(text)), "shorten it")
	}
}

// oldMembers are members of earlier schemas whose names have not only another spelling.
var oldMembers = map[string]string{
	"status":         "remove it; the registry manages the status",
	"version_detail": "write its version as the member version",
	"transport_type": "rename it to type",
}

// only warns of members other than those that are known.
func (p place) only(known ...string) {
	for _, name := range p.names() {
		if slices.Contains(known, name) {
			continue
		}
		fix := oldMembers[name]
		if near := nearest.Name(strings.ReplaceAll(name, "_", ""), known); fix == "" && near != "" {
			fix = "rename it to " + near
		}
		p.member(name).warning("member has no effect", fix)
	}
}
