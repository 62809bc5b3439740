package main

import (
	"errors"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/parley-mcp/parley/internal/must"
)

// linesOf returns the lines of a file of the repository that begin with a prefix, without it.
func linesOf(t *testing.T, path, prefix string) (found []string) {
	t.Helper()
	text := must.Get(os.ReadFile("../../" + path))(t)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			found = append(found, strings.TrimSpace(rest))
		}
	}
	return found
}

// checkCommand checks the subcommand and flags of a command line without the program.
func checkCommand(t *testing.T, line []string) {
	t.Helper()
	cmd, rest, err := newRoot().Find(line)
	must.Do(t, err, line)
	must.Check(t, cmd.ParseFlags(rest), line)
}

func TestContainerImageStartsWithoutPrivileges(t *testing.T) {
	const dockerfile = "deploy/Dockerfile"
	entry, command := linesOf(t, "scripts/image", "entrypoint=")[0], linesOf(t, "scripts/image", "command=")[0]
	start := strings.Split(command, ",")
	checkCommand(t, start)
	script := string(must.Get(os.ReadFile("../../scripts/image"))(t))
	must.CheckContains(t, script, " --user 65532:65532 ")
	must.CheckContains(t, script, "parley:x:65532:65532:")
	probe := healthCheck(t)
	checkCommand(t, probe[1:])
	must.CheckEqual(t, probe[0], entry, "the entry point", entry, probe)
	if admin := slices.Index(start, "--admin"); admin < 0 || start[admin+1] != probe[2] {
		t.Errorf("the health check requests %s; the command is %q", probe[2], start)
	}
	// The image of a clone is the same.
	must.CheckEqual(t, linesOf(t, dockerfile, "ENTRYPOINT ")[0], `["`+entry+`"]`)
	must.CheckEqual(t, linesOf(t, dockerfile, "CMD ")[0], `["`+strings.Join(start, `", "`)+`"]`)
	must.CheckEqual(t, linesOf(t, dockerfile, "USER ")[0], "65532:65532")
	// The image has no libraries.
	builds := string(must.Get(os.ReadFile("../../.goreleaser.yaml"))(t))
	must.CheckContains(t, builds, "env: [CGO_ENABLED=0]")
}

// healthCheck returns the command with which compose.yaml checks a container of parley.
func healthCheck(t *testing.T) []string {
	t.Helper()
	var file struct {
		Services map[string]struct{ Healthcheck struct{ Test []string } }
	}
	must.Do(t, yaml.Unmarshal(must.Get(os.ReadFile("../../deploy/compose.yaml"))(t), &file))
	test := file.Services["parley"].Healthcheck.Test
	must.Equal(t, len(test) > 3 && test[0] == "CMD", true, test)
	return test[1:]
}

func TestUnitOfSystemdIsRestricted(t *testing.T) {
	const unit = "deploy/parley.service"
	start := strings.Fields(linesOf(t, unit, "ExecStart=")[0])
	checkCommand(t, start[1:])
	for setting, want := range map[string]string{
		"DynamicUser=": "yes", "NoNewPrivileges=": "yes", "ProtectSystem=": "strict", "ProtectHome=": "yes",
		"CapabilityBoundingSet=": "",
		"PrivateTmp=":            "yes", "RestrictAddressFamilies=": "AF_INET AF_INET6 AF_UNIX", "KillMode=": "mixed",
	} {
		got := linesOf(t, unit, setting)
		must.CheckThat(t, len(got) == 1 && got[0] == want, "%s%q, want %q", setting, got, want)
	}
	// "confine" needs system calls that @system-service lacks or @privileged contains. The last line decides.
	filters := linesOf(t, unit, "SystemCallFilter=")
	must.CheckEqual(t, filters[len(filters)-1],
		"capset landlock_create_ruleset landlock_add_rule landlock_restrict_self seccomp")
}

// containerFiles are the files that start several containers: each of parley first, and the one of Redis last.
var containerFiles = [][]string{
	{"deploy/compose.yaml"}, {"deploy/kubernetes/parley.yaml", "deploy/kubernetes/redis.yaml"},
}

// parleyImage is the image of the program in the files of deploy.
const parleyImage = "ghcr.io/parley-mcp/parley:latest"

// textOf returns the texts of files, one after another.
func textOf(t *testing.T, files ...string) string {
	t.Helper()
	var all []string
	for _, file := range files {
		all = append(all, string(must.Get(os.ReadFile("../../"+file))(t)))
	}
	return strings.Join(all, "---\n")
}

// containersOf returns the command lines of the containers of files, by their images.
func containersOf(t *testing.T, files ...string) map[string][]string {
	t.Helper()
	all := make(map[string][]string)
	var find func(value any)
	find = func(value any) {
		switch value := value.(type) {
		case []any:
			for _, element := range value {
				find(element)
			}
		case map[string]any:
			for _, member := range value {
				find(member)
			}
			if image, ok := value["image"].(string); ok {
				for _, name := range []string{"command", "args"} { // the command precedes the arguments
					line, _ := value[name].([]any)
					for _, word := range line {
						// compose replaces $NAME
						all[image] = append(all[image], strings.ReplaceAll(word.(string), "$$", "$"))
					}
				}
			}
		}
	}
	for d := yaml.NewDecoder(strings.NewReader(textOf(t, files...))); ; {
		var document map[string]any
		switch err := d.Decode(&document); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatalf("%s: %v", files, err)
		}
		find(document)
	}
}

// flagOf returns the value of a flag that is written --flag=value.
func flagOf(words []string, flag string) string {
	for _, word := range words {
		if value, found := strings.CutPrefix(word, flag+"="); found {
			return value
		}
	}
	return ""
}

func TestContainersOfFilesHaveWhatTheirCommandsRead(t *testing.T) {
	for _, files := range containerFiles {
		containers := containersOf(t, files...)
		line := containers[parleyImage]
		if len(containers) != 2 || line == nil || containers["redis:7"] == nil {
			t.Fatalf("%s: containers %q", files, containers)
		}
		checkCommand(t, line)
		text := textOf(t, files...)
		config, keys := flagOf(line, "--config"), flagOf(line, "--key-file")
		for _, mounted := range [][]string{
			{":" + config + ":ro", "mountPath: " + path.Dir(config) + ","},
			{"secrets: [" + path.Base(keys) + "]", "mountPath: " + path.Dir(keys) + ","},
			{":/data", "mountPath: /data}"},
		} {
			if !slices.ContainsFunc(mounted, func(mount string) bool { return strings.Contains(text, mount) }) {
				t.Errorf("%s: no volume has one of %q", files, mounted)
			}
		}
		_, port, _ := strings.Cut(flagOf(line, "--addr"), ":")
		for _, published := range []string{":" + port + `"]`, "containerPort: " + port} {
			if strings.Contains(text, published) {
				port = ""
			}
		}
		must.CheckEqual(t, port, "", files)
	}
}

// The files for servers in Go start the same Redis as those for parley.
func TestContainersOfGoServersHaveTheSameRedis(t *testing.T) {
	want := containersOf(t, "deploy/compose.yaml")["redis:7"]
	got := containersOf(t, "deploy/go/compose.yaml")["redis:7"]
	must.CheckThat(t, slices.Equal(got, want), "the command of Redis is %q, want %q", got, want)
	line := containersOf(t, "deploy/go/kubernetes.yaml")["server"]
	must.CheckEqual(t, flagOf(line, "-http"), "0.0.0.0:8080", "the command of the server", line)
}

// The example for Kubernetes is closed: it requires tokens, and no pod reaches it past the Ingress.
func TestKubernetesExampleIsClosed(t *testing.T) {
	text := textOf(t, containerFiles[1]...)
	line := containersOf(t, containerFiles[1]...)[parleyImage]
	for _, flag := range []string{"--public-url", "--auth", "--policy", "--lock", "--audit"} {
		must.CheckThat(t, flagOf(line, flag) != "", "the command has no %s: %q", flag, line)
	}
	for _, app := range []string{"parley", "parley-redis"} {
		must.CheckContains(t, text, "kind: NetworkPolicy\nmetadata: {name: "+app+"}\n")
	}
	// Everything that the command reads is in the ConfigMap or a Secret.
	made := textOf(t, "deploy/kubernetes/kustomization.yaml")
	for _, word := range line {
		if _, file, found := strings.Cut(word, "/etc/parley/"); found {
			must.CheckThat(t, strings.Contains(made, file+",") || strings.Contains(made, file+"]"), "no source of %s", file)
		}
	}
}

// Kubernetes waits for as long as parley may take to end: requests, their responses, the programs of its servers,
// and the last traces and metrics.
func TestKubernetesWaitsForTheEnd(t *testing.T) {
	line := containersOf(t, containerFiles[1]...)[parleyImage]
	needed := 3*time.Second + 5*time.Second + 3*time.Second
	for _, flag := range []string{"--drain-delay", "--drain-timeout"} {
		needed += must.Get(time.ParseDuration(flagOf(line, flag)))(t)
	}
	_, rest, _ := strings.Cut(textOf(t, containerFiles[1]...), "terminationGracePeriodSeconds: ")
	grace, _, _ := strings.Cut(rest, "\n")
	seconds := must.Get(strconv.Atoi(grace))(t)
	must.CheckThat(t, time.Duration(seconds)*time.Second > needed, "%d seconds, parley may need %v", seconds, needed)
}
