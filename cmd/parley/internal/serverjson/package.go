package serverjson

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// packageRegistries are the types of registries whose packages have a name and a version.
var packageRegistries = []string{"npm", "pypi", "nuget", "cargo", "go"}

var (
	// imageHost matches the registries of OCI images that the official registry accepts.
	imageHost = regexp.MustCompile(`^(docker\.io|registry-1\.docker\.io|index\.docker\.io|ghcr\.io|` +
		`mcr\.microsoft\.com|.*\.pkg\.dev|.*\.azurecr\.io)$`)
	// releaseForm matches the URL of a file of a release.
	releaseForm = regexp.MustCompile(`(?i:^https://(www\.)?(github\.com/[^/]+/[^/]+/releases/download/[^/]+/[^/]+|` +
		`gitlab\.com/[^/]+(/[^/]+)*/-/(releases/[^/]+/downloads/[^/]+|package_files/[^/]+/download))$)`)
	// inBraces matches the variables of a URL.
	inBraces = regexp.MustCompile(`\{([^}]+)\}`)
)

func (p place) checkPackage() {
	p.only("registryType", "registryBaseUrl", "identifier", "version", "fileSha256", "runtimeHint", "transport",
		"runtimeArguments", "packageArguments", "environmentVariables")
	identifier, kind := p.member("identifier"), p.member("registryType")
	if strings.ContainsAny(identifier.text(), " \t\r\n") {
		identifier.problem("identifier must not have spaces", fixes["identifier"])
	}
	p.member("version").checkVersion()
	switch {
	case slices.Contains(packageRegistries, kind.text()):
		p.checkVersioned()
	case kind.text() == "oci":
		p.checkImage()
	case kind.text() == "mcpb":
		p.checkBundle()
	case kind.text() != "":
		kind.problem("the official registry does not accept packages of this type", fixes["registryType"])
	}
	variables := p.checkArguments()
	p.member("transport").checkTransport(variables)
}

// checkVersioned checks a package with a name and a version.
func (p place) checkVersioned() {
	if version := p.member("version"); !version.exists() {
		version.problem("required member is missing", "add the version of the package, such as 1.0.2")
	}
	p.without("fileSha256", "is only for MCP bundles")
}

// checkImage checks an OCI image.
func (p place) checkImage() {
	p.without("registryBaseUrl", "belongs into the identifier of an image, such as docker.io/OWNER/IMAGE:1.0.2")
	p.without("version", "belongs into the identifier of an image, such as docker.io/OWNER/IMAGE:1.0.2")
	p.without("fileSha256", "is only for MCP bundles")
	identifier := p.member("identifier")
	host, path, found := strings.Cut(identifier.text(), "/")
	if !found || !strings.ContainsAny(host, ".:") && host != "localhost" {
		host, path = "docker.io", identifier.text()
	}
	switch {
	case path == "" || strings.Contains(path, "://"):
		identifier.problem("identifier must be a reference to an image",
			"write a reference such as docker.io/OWNER/IMAGE:1.0.2")
	case !imageHost.MatchString(host):
		identifier.problem("the official registry does not accept images of "+host,
			"publish the image at docker.io, ghcr.io, *.pkg.dev, *.azurecr.io or mcr.microsoft.com")
	case !strings.ContainsAny(path[strings.LastIndexByte(path, '/')+1:], ":@"):
		identifier.warning("image has no tag, so that it can change", "add the tag of the version, such as :1.0.2")
	}
}

// checkBundle checks an MCP bundle (MCPB).
func (p place) checkBundle() {
	if digest := p.member("fileSha256"); !digest.exists() {
		digest.problem("required member is missing", fixes["fileSha256"])
	}
	p.without("registryBaseUrl", "has no meaning for an MCP bundle, whose identifier is a URL")
	identifier := p.member("identifier")
	switch {
	case identifier.text() == "":
	case !releaseForm.MatchString(identifier.text()):
		identifier.problem("identifier must be the https URL of a file of a release at github.com or gitlab.com",
			"write a URL such as https://github.com/OWNER/REPOSITORY/releases/download/TAG/FILE.mcpb")
	case !strings.Contains(strings.ToLower(identifier.text()), "mcp"):
		identifier.problem(`URL must contain "mcp"`, "name the file so that it ends with .mcpb")
	}
}

// without checks that a package does not have a member.
func (p place) without(name, reason string) {
	if m := p.member(name); m.exists() {
		m.problem("member must be absent: it "+reason, "remove it")
	}
}

// checkArguments checks the arguments and environment variables of a package. It returns the names that the URL of its
// transport can use.
func (p place) checkArguments() (variables []string) {
	for _, list := range []string{"runtimeArguments", "packageArguments"} {
		for _, a := range p.member(list).elements() {
			a.checkArgument()
			variables = append(variables, a.member("name").text(), a.member("valueHint").text())
		}
	}
	for _, e := range p.member("environmentVariables").elements() {
		e.checkInput("name", "variables")
		variables = append(variables, e.member("name").text())
	}
	return variables
}

func (p place) checkArgument() {
	p.checkInput("type", "name", "valueHint", "isRepeated", "variables")
	name := p.member("name")
	switch p.member("type").text() {
	case "positional":
		if !p.member("value").exists() && !p.member("valueHint").exists() {
			p.problem("positional argument must have a value or a valueHint",
				"add the value, or a valueHint that names what the user enters")
		}
	case "named":
		if name.text() == "" {
			name.problem("named argument must have a name", "write the name with its dashes, such as --port")
			return
		}
		if strings.ContainsAny(name.text(), "<> $") {
			name.problem("name of an argument must not have spaces and the characters < > $",
				"write only the name, such as --port; its value belongs into value or default")
		}
		for _, member := range []string{"value", "default"} {
			if m := p.member(member); strings.HasPrefix(m.text(), name.text()) {
				m.problem("value must not begin with the name of the argument", "write only the value")
			}
		}
	}
}

// checkInput checks a value that the description sets, or that the user enters. Others are the names of its other
// members.
func (p place) checkInput(others ...string) {
	p.only(append([]string{"description", "isRequired", "isSecret", "format", "value", "default", "placeholder",
		"choices"}, others...)...)
	for _, name := range []string{"value", "default"} {
		if m := p.member(name); m.text() != "" && p.member("isSecret").isTrue() && !strings.Contains(m.text(), "{") {
			m.warning("secret is published with the file", "remove it; clients ask the user for the value")
		}
	}
	for _, name := range p.member("variables").names() {
		p.member("variables").member(name).checkInput()
	}
}

// checkTransport checks the transport of a package. Its URL can contain the names of variables in braces.
func (p place) checkTransport(variables []string) {
	p.only("type", "url", "headers")
	p.checkHeaders()
	address := p.member("url")
	switch p.member("type").text() {
	case "stdio":
		if address.text() != "" {
			address.problem("the transport stdio has no URL", "remove it, or write the type streamable-http")
		}
	case "streamable-http", "sse":
		address.checkURL(variables, "an argument or an environment variable of the package")
	}
}

// checkRemote checks a server at a URL.
func (p place) checkRemote() {
	p.only("type", "url", "headers", "variables")
	p.checkHeaders()
	variables := p.member("variables")
	for _, name := range variables.names() {
		variables.member(name).checkInput()
	}
	address := p.member("url")
	u := address.checkURL(variables.names(), "a member of variables")
	if u == nil {
		return
	}
	host := u.Hostname()
	switch {
	case host == "localhost" || strings.HasSuffix(host, ".localhost") || host == "127.0.0.1":
		address.problem("URL of a remote server must not be that of the local machine",
			"write the public URL, or describe a package with this transport")
	case u.Scheme != "https":
		address.problem("URL of a remote server must begin with https://", "")
	}
}

func (p place) checkHeaders() {
	for _, h := range p.member("headers").elements() {
		h.checkInput("name", "variables")
	}
}

// checkURL checks a URL in which the names of variables are in braces. what describes a variable. It returns the URL
// with a digit for each variable, or nil if it is invalid.
func (p place) checkURL(variables []string, what string) *url.URL {
	if p.text() == "" {
		if !p.exists() {
			p.problem("required member is missing", "add the URL of the server")
		}
		return nil
	}
	u, err := url.Parse(inBraces.ReplaceAllString(p.text(), "1"))
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" ||
		strings.ContainsAny(p.text(), " \t\r\n") {
		p.problem("URL must begin with https:// or http:// and have a host", "")
		return nil
	}
	for _, match := range inBraces.FindAllStringSubmatch(p.text(), -1) {
		if !slices.Contains(variables, match[1]) {
			p.problem("variable {"+match[1]+"} is not "+what, "describe the variable, or write its value")
		}
	}
	return u
}
