package migrate

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
)

// command runs the program, checks its exit status and returns its output.
func command(t *testing.T, want int, environment map[string]string, in string, args ...string) string {
	t.Helper()
	var out, errOut bytes.Buffer
	getenv := func(name string) string { return environment[name] }
	if got := Run(t.Context(), args, getenv, strings.NewReader(in), &out, &errOut); got != want {
		t.Fatalf("%q: exit status %d, want %d\n%s\n%s", args, got, want, &out, &errOut)
	}
	return out.String() + errOut.String()
}

// matches reports whether a regular expression matches a text.
func matches(expression, text string) bool { return regexp.MustCompile(expression).MatchString(text) }

const notChanged = "Nothing was changed. Set -dashboard to list the changes to its policy.\n"

// The program prints the expected table for the sample. The sample has the formats that
// the references of the AWS CLI describe:
//
//	https://docs.aws.amazon.com/cli/latest/reference/apigateway/get-usage-plans.html
//	https://docs.aws.amazon.com/cli/latest/reference/apigateway/get-usage-plan-keys.html
//	https://docs.aws.amazon.com/cli/latest/reference/apigateway/get-api-keys.html
func TestTable(t *testing.T) {
	want, err := os.ReadFile("testdata/usageplans.txt")
	if err != nil {
		t.Fatal(err)
	}
	got := command(t, done, nil, "", "-from", "testdata/usageplans")
	if diff := cmp.Diff(string(want)+notChanged, got); diff != "" {
		t.Error(diff)
	}
}

// sampleValues returns the key values in the sample export.
func sampleValues(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("testdata/usageplans/api-keys.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range regexp.MustCompile(`"value": "([^"]+)"`).FindAllStringSubmatch(string(text), -1) {
		all = append(all, m[1])
	}
	if len(all) < 5 {
		t.Fatalf("got %d key values, want at least 5", len(all))
	}
	return all
}

// The written policy can be imported, and does not have a key's value.
func TestPolicyFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	out := command(t, done, nil, "", "-from", "testdata/usageplans", "-policy", file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	read, err := policydoc.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	set := read.Set(&policy.Set{})
	if err := set.Validate(); err != nil || len(set.Plans) != 5 {
		t.Errorf("got %v, want 5 plans in: %s", err, text)
	}
	for _, value := range sampleValues(t) {
		if strings.Contains(out+string(text), value) {
			t.Errorf("got the key value %s in the output or the policy", value)
		}
	}
}

// A pipe gives the same table as a folder with the same answers.
func TestPipe(t *testing.T) {
	pipe := ""
	for _, file := range []string{"usage-plans.json", "api-keys.json"} {
		text, err := os.ReadFile("testdata/usageplans/" + file)
		if err != nil {
			t.Fatal(err)
		}
		pipe += string(text)
	}
	members, err := filepath.Glob("testdata/usageplans/members/*.json")
	if err != nil || len(members) == 0 {
		t.Fatal(members, err)
	}
	for _, file := range members {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		withPlan := `{"usagePlanId": "` + strings.TrimSuffix(filepath.Base(file), ".json") + `", "items"`
		text = bytes.ReplaceAll(text, []byte(`{"usagePlanId": "p4week", "items"`), []byte(`{"items"`))
		pipe += strings.ReplaceAll(string(text), `{"items"`, withPlan)
	}
	folder := command(t, done, nil, "", "-from", "testdata/usageplans")
	if diff := cmp.Diff(folder, command(t, done, nil, pipe, "-from", "-")); diff != "" {
		t.Error(diff)
	}
}

// An incomplete or invalid export is refused. No error repeats a key's value.
func TestBadExports(t *testing.T) {
	const value = "Kq8vR2nW5xZ1cB4mJ7tY9pL3"
	for export, want := range map[string]string{
		`{"items": [{"id": "k", "enabled": true, "value": "` + value + `"}],
			"NextToken": "x"}`: "API keys: the last page",
		`{"usagePlanId": "p9", "items": [{"id": "k", "type": "API_KEY"}]}`: "unknown plan",
		`{"items": [{"id": "p", "name": "P"}], "position": "x"}`:           "usage plans: the last page",
		`{"usagePlanId": "p1", "items": [{"id": "k", "type": "API_KEY"}], "NextToken": "x"}`: "keys of " +
			"usage plan p1: the last page",
		`{"items": [{"id": "k", "enabled": "` + value + `"}]}`:                    "an item has no id",
		`{"items": [{"id": "k", "enabled": true, "value": ["` + value + `"]}]}`:   "item k has a field",
		`{"items": [{"enabled": true, "value": "` + value + `"}]}`:                "an item has no id",
		`{"items": [{"id": "k", "value": "` + value + `}]}`:                       "is not JSON",
		`{"items": [{"id": "p", "name": "P", "apiStages": [{"stage": "prod"}]}]}`: "usage plan P (p): an API stage",
		`{"items": [{"id": "p", "apiStages": [{"apiId": "a1", "stage": "*"}]}]}`:  "usage plan p (p): an API stage",
		`{"items": [{"id": "p", "name": "P", "quota": {"limit": 5, "period": "YEAR"}}]}`: "usage plan P (p): " +
			`its quota has the unknown period "YEAR"`,
		"{\"items\": [{\"id\": \"p\", \"name\": \"\\u001b[2J\", \"apiStages\": [{\"stage\": \"x\"}]}]}": `plan \x1b[2J`,
		`{"items": []}`: "no usage plans",
		``:              "no usage plans",
		value:           "is not JSON",
	} {
		got := command(t, failedSome, nil, export, "-from", "-")
		if !strings.Contains(got, want) || strings.Contains(got, value) {
			t.Errorf("%s: got %s, want %s and no key value", export, got, want)
		}
	}
}

// Names of an export reach neither the terminal as control characters nor the table as
// more rows or columns, and the policy is valid.
func TestControlCharacters(t *testing.T) {
	const name = `\u001b[31m\u009b2J\u202e\n\tkey fake\r`
	got := command(t, done, nil, `{"items": [{"id": "p\u001b", "name": "`+name+`", "tags": {"`+name+`": ""},
		"apiStages": [{"apiId": "a1", "stage": "prod", "throttle": {"/pets/GET": {"rateLimit": 1,
		"burstLimit": 1}}}]}]} {"usagePlanId": "p\u001b", "items": [{"id": "k", "type": "API_KEY"}]}
		{"items": [{"id": "k", "name": "`+name+`", "enabled": true, "customerId": "`+name+`",
		"tags": {"`+name+`": "x"}}]}`, "-from", "-")
	for _, line := range strings.Split(got, "\n") {
		if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) ||
			strings.HasPrefix(strings.TrimSpace(line), "key fake") {
			t.Errorf("got the line %q", line)
		}
	}
	if !strings.Contains(got, `\x1b[31m\u009b2J\u202e`) {
		t.Errorf("got %s, want the name with escapes", got)
	}
}

// The table is as long as its rows, also for 3,000 plans with one name that one key has:
// no row makes all others wider, and no name is looked for among all others again and
// again.
func TestManyPlansOfOneKey(t *testing.T) {
	name := strings.Repeat("long name ", 12)
	var plans, members strings.Builder
	for i := range 3000 {
		id := fmt.Sprintf("%s%d", strings.Repeat("p", policy.MaxNameLen), i)
		_, _ = fmt.Fprintf(&plans, `, {"id": "%s", "name": "%s", "apiStages": [{"apiId": "a%d", "stage": "x"}]}`,
			id, name, i)
		_, _ = fmt.Fprintf(&members, `{"usagePlanId": "%s", "items": [{"id": "k", "type": "API_KEY"}]}`, id)
	}
	got := command(t, failedSome, nil, `{"items": [`+plans.String()[1:]+`]}`+members.String()+
		`{"items": [{"id": "k", "enabled": true}]}`, "-from", "-")
	if !strings.Contains(got, "must be at most 500") {
		t.Errorf("got %.500s, want that 3,000 plans are too many", got[max(len(got)-500, 0):])
	}
	if rows := strings.Count(got, "\n"); len(got) > rows*2*maxSource {
		t.Errorf("got %d bytes in %d lines", len(got), rows)
	}
}

// Names keep what scripts and emoji need, and a name that cannot be one becomes the id, as
// the API would refuse it. A name that is cut has a line, and no two plans look the same.
func TestNames(t *testing.T) {
	long := strings.Repeat("\U0001f468", policy.MaxNameLen)
	got := command(t, done, nil, `{"items": [
		{"id": "p1", "name": "`+long+`", "apiStages": [{"apiId": "a1", "stage": "prod"}]},
		{"id": "p2", "name": "`+long+`x", "apiStages": [{"apiId": "a1", "stage": "prod"}]},
		{"id": "p3", "name": "\u06cc\u200c\u062e", "apiStages": [{"apiId": "a1", "stage": "prod"}]},
		{"id": "p4", "name": "\u06cc\u062e ", "apiStages": [{"apiId": "a1", "stage": "prod"}]},
		{"id": "p5", "name": "\u200d", "apiStages": [{"apiId": "a1", "stage": "prod"}]}]}
		{"usagePlanId": "p1", "items": [{"id": "k1", "type": "API_KEY"}]}
		{"items": [{"id": "k1", "name": "\u200f", "enabled": true, "tags": {"a": "\u05d0\u200f", "b": "x\u202e"}}]}`,
		"-from", "-", "-shadow")
	for _, want := range []string{
		"plan " + long + "\n", "  name +no equivalent: it is cut to 100 characters\n",
		"plan " + long[:4*95] + ` \(p2\)\n`, "plan \u06cc\u200c\u062e\n", `plan ` + "\u06cc\u062e" + ` \(p4\)\n`,
		"plan p5\n", `tag b=x\\u202e +no equivalent`, "of new plans are in shadow: they deny nothing",
	} {
		if !matches(want, got) {
			t.Errorf("want %q in %s", want, got)
		}
	}
}

// Bad usage gives an error that says what to do. There is no flag for the token.
func TestUsage(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"", "-from is required"},
		{"-from x -apply", "-apply needs -dashboard"},
		{"-from x -dashboard limits.example", "must be an https URL"},
		{"-from x -dashboard http://limits.example", "must be an https URL"},
		{"-from x -dashboard http://127.0.0.1.limits.example", "must be an https URL"},
		{"-from x -dashboard https://limits.example", "MIGRATE_TOKEN"},
		{"-from x y", "is not a flag"},
		{"-token t", "not defined: -token"},
	} {
		if got := command(t, 2, nil, "", strings.Fields(c.args)...); !strings.Contains(got, c.want) {
			t.Errorf("%s: got %s, want %s", c.args, got, c.want)
		}
	}
}

// bucketOf returns a bucket of the burst, whose window does not exceed the rate.
func TestBucketOf(t *testing.T) {
	for _, c := range []struct {
		rate  float64
		burst int64
		want  time.Duration
	}{{10, 20, 2 * time.Second}, {3, 10, 3334 * time.Millisecond}, {10000, 5000, 500 * time.Millisecond},
		{0.1, 1, 10 * time.Second}, {1e6, 1, time.Millisecond}, {1e-9, 5, limits.MaxWindow}} {
		l, ok := bucketOf(throttle{c.rate, c.burst})
		if !ok || l.Window != c.want || l.Requests != c.burst || len(l.Errors()) > 0 {
			t.Errorf("%g a second, burst %d: got %+v, want window %s", c.rate, c.burst, l, c.want)
		}
	}
	for _, t0 := range []throttle{{0, 5}, {5, 0}, {-1, 5}} {
		if l, ok := bucketOf(t0); ok {
			t.Errorf("%+v: got %+v, want none", t0, l)
		}
	}
}
