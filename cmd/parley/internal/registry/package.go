package registry

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// kind is what the program that starts packages of a type accepts from a description. Everything else could name
// another package than the one that the description names, or another registry.
type kind struct {
	name     *regexp.Regexp // of a package, and never a path or a URL
	registry []string       // the URLs of the public registry
	other    bool           // packages of another registry can be named
	switches []string       // runtime arguments without a value
	options  []string       // runtime arguments with a value
}

var (
	plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	version   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+!-]*$`)
	archive   = regexp.MustCompile(`(?i)\.(tgz|tar|tar\.gz|zip|whl|nupkg|py|js)$`) // the name of a file
)

var kinds = map[string]kind{
	"npm": {
		name:     regexp.MustCompile(`^(@[A-Za-z0-9][A-Za-z0-9._~-]*/)?[A-Za-z0-9][A-Za-z0-9._~-]*$`),
		other:    true,
		switches: []string{"-y", "--yes", "-q", "--quiet", "--silent", "--ignore-scripts", "--prefer-offline", "--prefer-online"},
	},
	"pypi": {
		name: plainName, registry: []string{"https://pypi.org"},
		switches: []string{"-q", "--quiet", "--isolated", "--no-cache", "--refresh", "--no-config"}, options: []string{"-p", "--python"},
	},
	"nuget": {
		name: plainName, registry: []string{"https://api.nuget.org", "https://api.nuget.org/v3/index.json"}, other: true,
		switches: []string{"-y", "--yes", "--prerelease", "--allow-roll-forward"},
	},
	"oci": {
		name:     regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*(:[0-9]+)?(/[a-z0-9][a-z0-9._-]*)*(:[A-Za-z0-9_][A-Za-z0-9._-]*)?(@sha256:[0-9a-f]{64})?$`),
		registry: []string{"https://docker.io", "https://index.docker.io", "https://registry-1.docker.io"}, other: true,
		switches: []string{"run", "-i", "--interactive", "--rm", "--init", "--read-only", "-t", "--tty"},
		options: []string{
			"-e", "--env", "-v", "--volume", "--mount", "-p", "--publish", "--network", "--name", "-w", "--workdir", "-u", "--user", "-m", "--memory",
			"--cpus", "--add-host", "-l", "--label", "--tmpfs", "--shm-size", "--platform", "--pull", "--gpus", "--security-opt", "--cap-drop",
		},
	},
}

// configuring matches the names of variables that configure the programs that start packages, or change what they run.
// A description cannot set them.
var configuring = regexp.MustCompile(`(?i)^(npm_|yarn_|uv_|pip_|nuget_|dotnet_|docker_|buildkit_|ld_|dyld_|node_options$|node_path$|python(path|home|startup)$|path$|home$|.*_proxy$)`)

// check returns an error if a package is not one of its registry, but a file or something else that the program that
// starts packages accepts.
func (p *Package) check() error {
	k := kinds[p.RegistryType]
	switch {
	case p.Identifier == "":
		return errors.New("the package has no identifier")
	case !k.name.MatchString(p.Identifier), archive.MatchString(p.Identifier), p.Version != "" && !version.MatchString(p.Version):
		return fmt.Errorf("invalid name or version %q of a package; only packages of a registry can be added", strings.TrimSpace(p.Identifier+" "+p.Version))
	}
	if base := p.otherRegistry(); base != "" {
		u, err := url.Parse(base)
		if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
			strings.ContainsAny(base, " $'\"\\") || p.RegistryType == "oci" && (u.Path != "" && u.Path != "/" || hasHost(p.Identifier)) {
			return fmt.Errorf("invalid registry %q of a package", base)
		}
		if !k.other {
			return fmt.Errorf("packages of the registry %s must be installed by hand", base)
		}
	}
	for _, e := range p.EnvironmentVariables {
		if configuring.MatchString(e.Name) && e.Value+e.Default != "" || !variableName.MatchString(e.Name) {
			return fmt.Errorf("the variable %q of the package could change what is run", e.Name)
		}
	}
	return nil
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

// hasHost reports whether the identifier of an image names its registry.
func hasHost(image string) bool {
	host, _, found := strings.Cut(image, "/")
	return found && (strings.ContainsAny(host, ".:") || host == "localhost")
}

// otherRegistry returns the registry of the package if that is not the public one of its type. An image that names the
// same registry needs no other.
func (p *Package) otherRegistry() string {
	base := strings.TrimRight(p.RegistryBaseURL, "/")
	if slices.Contains(kinds[p.RegistryType].registry, base) {
		return ""
	}
	if _, host, _ := strings.Cut(base, "://"); p.RegistryType == "oci" && hasHost(p.Identifier) && strings.HasPrefix(p.Identifier, host+"/") {
		return ""
	}
	return base
}

// checkRuntime returns an error for arguments of the program that starts the package, unless they are known not to name
// another package, image or registry.
func (p *Package) checkRuntime(args []string) error {
	k := kinds[p.RegistryType]
	for i := 0; i < len(args); i++ {
		name, _, hasValue := strings.Cut(args[i], "=")
		switch {
		case slices.Contains(k.switches, args[i]), hasValue && slices.Contains(k.options, name):
		case slices.Contains(k.options, args[i]) && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-"):
			i++
		default:
			return fmt.Errorf("the runtime argument %q of the package could change what is run; start the package by hand", args[i])
		}
	}
	return nil
}
