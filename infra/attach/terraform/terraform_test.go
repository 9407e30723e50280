// Package terraform tests the modules in this folder with Terraform, its AWS provider and
// an emulator of AWS, where they are found.
package terraform

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"tidegate/internal/testing/waiting"
)

const (
	commandTimeout = 5 * time.Minute
	// changesFound is the exit status of terraform plan -detailed-exitcode if something
	// would change.
	changesFound = 2
)

// project is a folder with an app and the modules that it uses.
type project struct {
	dir       string
	variables []string
}

// newProject copies an app, and the modules that it uses.
func newProject(t *testing.T, app string, modules ...string) *project {
	t.Helper()
	p := &project{dir: t.TempDir(), variables: []string{"TF_IN_AUTOMATION=1", "CHECKPOINT_DISABLE=1"}}
	for _, folder := range append(modules, app) {
		content, err := os.ReadFile(filepath.Join(folder, "main.tf"))
		if err != nil {
			t.Fatal(err)
		}
		if folder == app {
			folder = "."
		}
		p.put(t, filepath.Join(folder, "main.tf"), content)
	}
	return p
}

func (p *project) put(t *testing.T, name string, content []byte) {
	t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

// terraform runs a command and returns what it printed.
func (p *project) terraform(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "terraform", append(args, "-no-color")...)
	cmd.Dir = p.dir
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "TF_") { // a developer's own settings
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(cmd.Env, p.variables...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (p *project) succeed(t *testing.T, args ...string) string {
	t.Helper()
	out, err := p.terraform(t, args...)
	if err != nil {
		t.Fatalf("terraform %s: %v\n%s", args[0], err, out)
	}
	return out
}

// plan returns the plan, and whether it changes anything.
func (p *project) plan(t *testing.T) (out string, changes bool) {
	t.Helper()
	out, err := p.terraform(t, "plan", "-input=false", "-detailed-exitcode")
	exit, failed := errors.AsType[*exec.ExitError](err)
	if err != nil && (!failed || exit.ExitCode() != changesFound) {
		t.Fatalf("plan: %v\n%s", err, out)
	}
	return out, failed
}

// initialize finds the provider in the folders where Terraform and its packages keep
// providers, or else gets it from the registry.
func (p *project) initialize(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("terraform"); err != nil {
		t.Skip("needs terraform, which is not found")
	}
	home, _ := os.UserHomeDir()
	for _, folder := range []string{os.Getenv("TERRAFORM_PROVIDERS"),
		filepath.Join(home, ".terraform.d", "plugins"),
		"/usr/local/share/terraform/plugins", "/usr/share/terraform/plugins", "/opt/tf-plugins"} {
		if found, _ := filepath.Glob(filepath.Join(folder, "*", "hashicorp", "aws", "*")); folder != "" &&
			len(found) > 0 {
			p.succeed(t, "init", "-input=false", "-plugin-dir="+folder)
			return
		}
	}
	if out, err := p.terraform(t, "init", "-input=false"); err != nil {
		t.Skipf(
			"needs the provider hashicorp/aws: set TERRAFORM_PROVIDERS to a folder of "+
				"terraform providers mirror\n%s",
			out,
		)
	}
}

// emulate starts moto, an emulator of AWS, for this project.
func (p *project) emulate(t *testing.T) {
	t.Helper()
	if exec.CommandContext(t.Context(), "python3", "-c", "import moto.server").Run() != nil {
		t.Skip(
			"validated, but neither planned nor applied: needs moto (python3 -m pip install 'moto[server]')",
		)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close() // moto takes no listener
	_, port, _ := net.SplitHostPort(address)
	server := exec.CommandContext(t.Context(), "python3", "-m", "moto.server", "-p", port)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	waiting.Until(t, "moto answers", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	p.variables = append(p.variables, "TF_VAR_endpoint=http://"+address, "TF_VAR_code=code.zip")
}

// The modules are wired as the page says: they are valid, can be applied at once, and are
// then unchanged. A change of an answer makes a new deployment.
func TestModules(t *testing.T) {
	p := newProject(t, "testdata", "rest", "http", "websocket")
	p.put(t, "code.zip", []byte("PK\x05\x06"+strings.Repeat("\x00", 18))) // without entries
	p.initialize(t)
	p.succeed(t, "validate")
	p.emulate(t)
	p.succeed(t, "apply", "-input=false", "-auto-approve")
	if out, changes := p.plan(t); changes {
		t.Fatalf("the second plan is not empty:\n%s", out)
	}
	rest, err := os.ReadFile("rest/main.tf")
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(rest), "Retry-After,RateLimit,", "RateLimit,Retry-After,", 1)
	if changed == string(rest) {
		t.Fatal("rest/main.tf has no list of fields to change")
	}
	p.put(t, "rest/main.tf", []byte(changed))
	if out, _ := p.plan(t); !strings.Contains(out, "aws_api_gateway_deployment.orders must be replaced") {
		t.Errorf("a changed answer would not be deployed:\n%s", out)
	}
}

// The module of the stack gives CloudFormation the uploaded template and functions of a
// release, and other code another place.
func TestStack(t *testing.T) {
	template, err := os.ReadFile("../../testdata/template.json")
	if err != nil {
		t.Fatal(err)
	}
	p := newProject(t, "testdata/stack", "stack")
	p.put(t, "dist/tidegate.template.json", template)
	for _, name := range []string{"check", "admin", "forward"} {
		p.put(t, "dist/"+name+"-arm64.zip", []byte(name))
	}
	p.initialize(t)
	p.succeed(t, "validate")
	out, _ := p.plan(t)
	for _, want := range []string{"5 to add", `"tidegate-prod-eu"`, `"AlarmEmail" = "you@example.com"`,
		"https://code-of-tidegate.s3.eu-central-1.amazonaws.com/tidegate/", "CAPABILITY_NAMED_IAM"} {
		if !strings.Contains(out, want) {
			t.Errorf("the plan has no %s:\n%s", want, out)
		}
	}
	place := codePlace.FindString(out)
	for _, name := range []string{"check", "admin", "forward"} {
		if place == "" || !strings.Contains(out, place+name+".zip\"") {
			t.Errorf("the code of %s is not below %s:\n%s", name, place, out)
		}
	}
	p.put(t, "dist/admin-arm64.zip", []byte("another"))
	if out, _ := p.plan(t); codePlace.FindString(out) == place {
		t.Errorf("other code has the same place, so CloudFormation sees no change:\n%s", out)
	}
	checkParameters(t, template)
}

var codePlace = regexp.MustCompile(`tidegate/[0-9a-f]{40}/`)

// checkParameters checks that the template has what the module gives and returns.
func checkParameters(t *testing.T, text []byte) {
	t.Helper()
	var template struct{ Parameters, Outputs map[string]any }
	if err := json.Unmarshal(text, &template); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Stage", "CodeBucket", "CodePrefix", "AlarmEmail"} {
		if template.Parameters[name] == nil {
			t.Errorf("the template has no parameter %s", name)
		}
	}
	for _, name := range []string{"CheckFunctionArn", "DashboardUrl", "FirstLogin"} {
		if template.Outputs[name] == nil {
			t.Errorf("the template has no output %s", name)
		}
	}
}
