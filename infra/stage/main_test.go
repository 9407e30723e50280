package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func stage(t *testing.T, app, input string, args ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	err := run(app, args, strings.NewReader(input), &out)
	return out.String(), err
}

func file(t *testing.T, app, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(app, "stages", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A new stage is asked for: a wrong answer again, an empty one is the default.
func TestAsks(t *testing.T) {
	app := t.TempDir()
	out, err := stage(t, app, "redis\nnodes\n\n\ntrue\nops@example.com\n", "prod")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "store=redis: must be serverless, nodes or url") ||
		!strings.Contains(out, "npx cdk deploy -c stage=prod") {
		t.Errorf("got %s, want the error and the command", out)
	}
	want := `{
  "settings": {
    "alarmEmail": "ops@example.com",
    "store": "nodes"
  },
  "fixed": {
    "changesBucket": "",
    "cidr": "10.42.0.0/20",
    "key": "",
    "pepperSecret": "",
    "replicas": "1",
    "snapshot": "",
    "store": "nodes",
    "subnets": "",
    "valkeyVersion": "8.1",
    "vpc": "",
    "zones": ""
  }
}
`
	if got := file(t, app, "prod"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if _, err := stage(t, app, "nodes\n", "qa"); err == nil {
		t.Error("got no error for missing answers")
	}
	if _, err := os.Stat(filepath.Join(app, "stages", "qa.json")); err == nil {
		t.Error("got a file after missing answers, want none")
	}
}

// Flags change one by one, and what cannot change is refused and stays.
func TestChanges(t *testing.T) {
	app := t.TempDir()
	for _, args := range [][]string{
		{"prod", "store=nodes", "check.LOG_LEVEL=warn", "zones="}, {"prod", "shards=3", "check.LOG_LEVEL="},
		{"prod", "valkeyVersion=9.0"},
	} {
		if out, err := stage(t, app, "", args...); err != nil {
			t.Fatalf("%v: %v %s", args, err, out)
		}
	}
	before := file(t, app, "prod")
	if !strings.Contains(before, `"shards": 3`) || strings.Contains(before, "LOG_LEVEL") {
		t.Errorf("got %s, want shards and no level", before)
	}
	for change, want := range map[string]string{
		"store=serverless":             "store=serverless: was nodes, and cannot change",
		"cidr=10.0.0.0/16":             "the network and the cache would be replaced",
		"zones=eu-west-1a,eu-west-1b":  "was the default",
		"replicas=2":                   "the cache would be replaced",
		"valkeyVersion=8.2":            "cannot go back",
		"nonsense=1":                   "unknown setting",
		"shrads=":                      "unknown setting",
		"stage=dev":                    "unknown setting",
		"shards":                       "NAME=VALUE",
		"valkeyVersion=9.1 maxECPUs=9": "must be a whole number",
	} {
		_, err := stage(t, app, "", append([]string{"prod"}, strings.Fields(change)...)...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", change, err, want)
		}
	}
	if _, err := stage(t, app, "", "prod", "valkeyVersion=9.1", "maxECPUs=9000"); err == nil ||
		!strings.Contains(err.Error(), "one of them at a time") {
		t.Errorf("version and limit at once: got %v", err)
	}
	if got := file(t, app, "prod"); got != before {
		t.Errorf("got %s after refusals, want it unchanged", got)
	}
	if _, err := stage(t, app, "", "-new", "prod", "store=serverless"); err != nil {
		t.Errorf("-new: %v", err)
	}
	if _, err := stage(t, app, "", "../prod", "store=nodes"); err == nil {
		t.Error("got no error for a stage with a path")
	}
}
