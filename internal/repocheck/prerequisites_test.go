package repocheck

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const scripts = "../../scripts"

// pathOf returns a folder for PATH with awk, dirname, sed and the given programs, each of
// which prints its text.
func pathOf(t *testing.T, programs map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{"awk", "dirname", "sed"} {
		program, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(program, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range programs {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\necho '"+text+"'\n"),
			0o700); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func shell(t *testing.T, path string, arguments ...string) (output string, ok bool) {
	t.Helper()
	command := exec.Command("/bin/sh", arguments...)
	command.Env = []string{"PATH=" + path}
	printed, err := command.CombinedOutput()
	return string(printed), err == nil
}

// The message about a missing program says which version is needed and how to install it.
func TestPrerequisites(t *testing.T) {
	for name, c := range map[string]struct {
		need     string
		programs map[string]string
		want     []string // empty when nothing is missing
	}{
		"no Go": {"need_go", nil,
			[]string{"Go 1.", "found none", "brew install go", "https://go.dev/dl"}},
		"old Go": {"need_go", map[string]string{"go": "go version go1.19.8 linux/amd64"},
			[]string{"found 1.19.8", "https://go.dev/dl"}},
		"this Go":  {"need_go", map[string]string{"go": "go version go1.26.0 linux/amd64"}, nil},
		"later Go": {"need_go", map[string]string{"go": "go version go1.100rc1 darwin/arm64"}, nil},
		"no Node": {"need_node", nil,
			[]string{"Node.js 20", "found none", "brew install node", "apt-get install nodejs npm"}},
		"old Node": {"need_node", map[string]string{"node": "v18.20.4", "npm": "9.2.0"},
			[]string{"found 18.20.4"}},
		"Node without npm": {"need_node", map[string]string{"node": "v22.1.0"},
			[]string{"found 22.1.0 without npm"}},
		"Node": {"need_node", map[string]string{"node": "v20.0.0", "npm": "9.2.0"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			call := ". " + scripts + "/prerequisites.sh && " + c.need
			output, ok := shell(t, pathOf(t, c.programs), "-c", call, filepath.Join(scripts, "caller"))
			if ok != (len(c.want) == 0) {
				t.Fatalf("succeeded is %v, want %v:\n%s", ok, len(c.want) == 0, output)
			}
			for _, want := range c.want {
				if !strings.Contains(output, want) {
					t.Errorf("want %q in:\n%s", want, output)
				}
			}
		})
	}
}

// -check says how to install a missing Valkey, and installs nothing.
func TestMissingTestTools(t *testing.T) {
	programs := map[string]string{"chromium": "", "valkey-server": "Redis server v=7.2.4 sha=0"}
	output, ok := shell(t, pathOf(t, programs), filepath.Join(scripts, "install-test-tools"), "-check",
		"valkey", "chromium")
	if ok {
		t.Errorf("an old server was accepted: %s", output)
	}
	for _, want := range []string{"missing: valkey (valkey-server is 7.2.4)", "brew install valkey",
		"apt-get install valkey-server"} {
		if !strings.Contains(output, want) {
			t.Errorf("want %q in:\n%s", want, output)
		}
	}
	programs["valkey-server"] = "Valkey server v=8.0.1 sha=0"
	if output, ok := shell(t, pathOf(t, programs), filepath.Join(scripts, "install-test-tools"),
		"-check", "valkey", "chromium"); !ok {
		t.Errorf("failed although nothing is missing: %s", output)
	}
}

// -h of each script prints the comment at its top. It needs only awk, dirname and sed.
func TestScriptsHelp(t *testing.T) {
	all, err := filepath.Glob(scripts + "/*")
	if err != nil || len(all) < 10 {
		t.Fatal(all, err)
	}
	for _, script := range append(all, "../../.ci/run") {
		if info, err := os.Stat(script); err != nil || info.IsDir() || filepath.Ext(script) != "" {
			continue
		}
		output, ok := shell(t, pathOf(t, nil), script, "-h")
		source, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		purpose := strings.TrimPrefix(strings.Split(string(source), "\n")[1], "# ")
		if !ok || !strings.HasPrefix(output, purpose+"\n") || !strings.Contains(output, " -h ") {
			t.Errorf("%s -h: succeeded is %v, want help that begins with %q:\n%s", script, ok, purpose,
				output)
		}
	}
}
