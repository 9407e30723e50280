package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// packages is the folder of the tools with which users package the snippets.
const packages = "testdata/attach"

// tool returns the path of a program of packages. If it is missing, the test is skipped,
// or fails in CI.
func tool(t *testing.T, path ...string) string {
	t.Helper()
	program, err := filepath.Abs(filepath.Join(append([]string{packages, "node_modules"}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		const remedy = "npm ci --ignore-scripts in infra/" + packages
		if ci, _ := strconv.ParseBool(os.Getenv("CI")); ci {
			t.Fatalf("this test needs %s", remedy)
		}
		t.Skipf("this test needs %s", remedy)
	}
	return program
}

// runNode runs a Node.js program in a folder.
func runNode(t *testing.T, folder string, environment []string, arguments ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "node", arguments...)
	command.Dir, command.Env = folder, append(os.Environ(), environment...)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("node %s: %v\n%s", strings.Join(arguments, " "), err, output)
	}
}

func copyTo(t *testing.T, folder string, files ...string) {
	t.Helper()
	for _, file := range files {
		if err := os.WriteFile(filepath.Join(folder, filepath.Base(file)), read(t, file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// resourcesOf returns the resources of a template file, as attachments read them, with
// the dependencies of each.
func resourcesOf(t *testing.T, file string) map[string]any {
	t.Helper()
	var made struct{ Resources map[string]any }
	if err := json.Unmarshal(read(t, file), &made); err != nil {
		t.Fatal(err)
	}
	return made.Resources
}

// The snippet in TypeScript compiles against the CDK's types, and synthesises to the same
// resources as the construct in Go. Synthesis warns of an API that the app does not
// deploy.
func TestPackagedByCDKInTypeScript(t *testing.T) {
	compiler := tool(t, "typescript", "bin", "tsc")
	folder := t.TempDir()
	copyTo(t, folder, "attach/cdk.ts", packages+"/app.ts")
	modules := filepath.Join(compiler, "..", "..", "..")
	if err := os.Symlink(modules, filepath.Join(folder, "node_modules")); err != nil {
		t.Fatal(err)
	}
	runNode(t, folder, nil, compiler, "--strict", "--skipLibCheck", "--module", "commonjs",
		"--target", "es2022",
		"--types", "node", "app.ts")
	runNode(t, folder, []string{"CDK_OUTDIR=" + folder}, "app.js")
	resources := resourcesOf(t, filepath.Join(folder, "Somebody.template.json"))
	same(t, ofResources(t, resources))
	waitsForResponses(t, resources)
	warnings := regexp.MustCompile(
		`"/(\w+)/RestLimits": \[\s*\{\s*"type": "aws:cdk:warning",\s*"data": "This app does not deploy`)
	var warned []string
	for _, file := range []string{"manifest.json", "Somebody.metadata.json", "Elsewhere.metadata.json"} {
		for _, found := range warnings.FindAllStringSubmatch(string(read(t, filepath.Join(folder, file))),
			-1) {
			warned = append(warned, found[1])
		}
	}
	equal(t, "stacks that are warned of", warned, []string{"Elsewhere"})
	for _, value := range resourcesOf(t, filepath.Join(folder, "Elsewhere.template.json")) {
		if r := value.(map[string]any); r["Type"] == "AWS::ApiGatewayV2::Integration" {
			p := properties(r["Properties"].(map[string]any))
			equal(t, text(p["IntegrationUri"])+" has mappings", p["ResponseParameters"] != nil,
				p["ApiId"] == "def456")
		}
	}
	compareGolden(t, "cdk-typescript", resources)
}

// The package of the Serverless Framework equals what the stack deploys. It has no
// identity source, since API Gateway would refuse an empty one.
func TestPackagedByServerlessFramework(t *testing.T) {
	program := tool(t, "osls", "bin", "serverless.js")
	folder := t.TempDir()
	copyTo(t, folder, "attach/serverless.yml", "backend.js")
	if err := os.Rename(filepath.Join(folder, "backend.js"), filepath.Join(folder, "index.js")); err != nil {
		t.Fatal(err)
	}
	environment := []string{"AWS_ACCESS_KEY_ID=none", "AWS_SECRET_ACCESS_KEY=none", "AWS_REGION=us-east-1"}
	const function = "arn:aws:lambda:us-east-1:111122223333:function:tidegate-dev-check"
	runNode(t, folder, environment, program, "package", "--param=checkFunctionArn="+function)
	template := filepath.Join(folder, ".serverless", "cloudformation-template-update-stack.json")
	resources := resourcesOf(t, template)
	same(t, ofResources(t, resources))
	waitsForResponses(t, resources)
	compareGolden(t, "serverless", resources)
}

// waitsForResponses checks that deployments depend on the gateway responses: a stage has
// only those that existed when its deployment was created.
func waitsForResponses(t *testing.T, resources map[string]any) {
	t.Helper()
	seen := map[string]bool{}
	var visit func(id string)
	visit = func(id string) {
		r, _ := resources[id].(map[string]any)
		if r == nil || seen[id] {
			return
		}
		seen[id] = true
		for _, other := range list(r["DependsOn"]) {
			visit(text(other))
		}
	}
	deployments := 0
	for id, value := range resources {
		if r, _ := value.(map[string]any); r["Type"] == "AWS::ApiGateway::Deployment" {
			deployments++
			visit(id)
		}
	}
	equal(t, "deployments", deployments, 1)
	for id, value := range resources {
		if r, _ := value.(map[string]any); r["Type"] == "AWS::ApiGateway::GatewayResponse" && !seen[id] {
			t.Errorf("want the deployment to depend on %s", id)
		}
	}
}

// stamped matches ids with a time stamp, which differs between runs.
var stamped = regexp.MustCompile(`(Deployment)\d{13}`)

// compareGolden compares the resources that a tool makes of its snippet with the golden
// file, which the emulators read. -update rewrites the file.
func compareGolden(t *testing.T, tool string, resources map[string]any) {
	t.Helper()
	kept := map[string]any{}
	for id, value := range resources {
		r, _ := value.(map[string]any)
		kind := text(r["Type"])
		if strings.HasPrefix(kind, "AWS::ApiGateway") || kind == "AWS::Lambda::Permission" {
			kept[id] = map[string]any{"Type": r["Type"], "Properties": r["Properties"]}
		}
	}
	got := stamped.ReplaceAll(encoded(t, kept), []byte("$1"))
	file := filepath.Join("..", "internal", "golden", "attach", tool+".json")
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(read(t, file)), string(got)); diff != "" {
		t.Errorf("go -C infra test . -run 'Attach|Packaged' -update accepts this (-golden +made):\n%s", diff)
	}
}

// The tests use the same version of the CDK in TypeScript and in Go.
func TestPackagesAreThoseOfGo(t *testing.T) {
	var file struct{ DevDependencies map[string]string }
	if err := json.Unmarshal(read(t, packages+"/package.json"), &file); err != nil {
		t.Fatal(err)
	}
	module := "github.com/aws/aws-cdk-go/awscdk/v2 v" + file.DevDependencies["aws-cdk-lib"] + "\n"
	if !strings.Contains(string(read(t, "go.mod")), module) {
		t.Errorf("want %s in go.mod", module)
	}
}
