package migrate

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
)

const (
	bronze = `{"items": [{"id": "p1", "name": "Bronze", "apiStages": [{"apiId": "abc1234567", "stage": "prod"}],
		"throttle": {"burstLimit": 20, "rateLimit": 10.0}}]}`
	oneKey = `{"items": [{"id": "k1", "value": "MadeUpKeyValue0123456789abcdefghijklmnop0", "name": "Zoë",
		"enabled": true, "stageKeys": []}]}`
	member = `{"items": [{"id": "k1", "type": "API_KEY", "name": "Zoë"}]}`
)

// folder writes files and returns their folder.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	at := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return at
}

// inUTF16 returns a text in UTF-16 with lines and, if marked, a byte order mark of Windows.
func inUTF16(text string, order binary.AppendByteOrder, marked bool) string {
	if text = strings.ReplaceAll(text, "\n", "\r\n"); marked {
		text = "\ufeff" + text
	}
	var b []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		b = order.AppendUint16(b, unit)
	}
	return string(b)
}

// The same export gives the same table in every form and encoding in which the AWS CLI and
// editors write it, and if a list is in it twice.
func TestForms(t *testing.T) {
	json := map[string]string{"plans.json": bronze, "keys.json": oneKey, "p1.json": member}
	want := command(t, done, nil, "", "-from", folder(t, json))
	if !matches(`key k1 Zoë +key of plan Bronze, value kept\n(.*\n)+.* 0 lines without`, want) {
		t.Fatalf("got %s", want)
	}
	each := func(change func(string) string) map[string]string {
		files := map[string]string{}
		for name, text := range json {
			files[name] = change(text)
		}
		return files
	}
	for form, files := range map[string]map[string]string{
		"byte order mark": each(func(text string) string { return "\ufeff" + text }),
		"UTF-16":          each(func(text string) string { return inUTF16(text, binary.LittleEndian, true) }),
		"UTF-16, big":     each(func(text string) string { return inUTF16(text, binary.BigEndian, true) }),
		"UTF-16, no mark": each(func(text string) string {
			return inUTF16(text, binary.LittleEndian, false)
		}),
		"--query items": each(func(text string) string {
			return strings.TrimSuffix(strings.TrimPrefix(text, `{"items": `), "}")
		}),
		"twice": {"plans.json": bronze, "again.json": bronze, "keys.json": oneKey + oneKey,
			"p1.json": member + member},
		"keys without values too": {"plans.json": bronze, "p1.json": member, "keys.json": oneKey,
			"a.json": strings.Replace(oneKey, `"value": "MadeUpKeyValue0123456789abcdefghijklmnop0", `, "", 1)},
		"YAML": {
			"plans.yaml": "items:\n- apiStages:\n  - apiId: abc1234567\n    stage: prod\n  id: p1\n" +
				"  name: Bronze\n" +
				"  throttle:\n    burstLimit: 20\n    rateLimit: 10.0\n",
			"keys.yml": "- items:\n  - enabled: true\n    id: k1\n    name: Zoë\n    stageKeys: []\n" +
				"    value: MadeUpKeyValue0123456789abcdefghijklmnop0\n",
			"p1.yaml": "items:\n- id: k1\n  name: Zoë\n  type: API_KEY\n",
		},
	} {
		if diff := cmp.Diff(want, command(t, done, nil, "", "-from", folder(t, files))); diff != "" {
			t.Errorf("%s: %s", form, diff)
		}
	}
}

// Ids in YAML that look like numbers stay text.
func TestNumbersAsIDs(t *testing.T) {
	got := command(t, done, nil, "", "-from", folder(t, map[string]string{
		"plans.yaml": "items:\n- id: 12e4567890\n  name: 007\n" +
			"  apiStages: [{apiId: 0123456789, stage: prod}]\n"}))
	for _, want := range []string{"usage plan 007 (12e4567890)", "opens 0123456789/prod * *"} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// A key file of API Gateway gives the keys and their plans. Of two rows with one value the
// last counts, and a key that get-api-keys lists too is imported once.
func TestKeyFile(t *testing.T) {
	const plans = `{"items": [
		{"id": "p1", "name": "Bronze", "apiStages": [{"apiId": "abc1234567", "stage": "prod"}]},
		{"id": "p2", "name": "Gold", "apiStages": [{"apiId": "abc1234567", "stage": "prod"}]}]}`
	file := "\ufeffName,key,description,Enabled,usageplanIds\r\n" +
		"old,MadeUpKeyValue0123456789abcdefghijklmnop1,,TRUE,p2\r\n" +
		"one,MadeUpKeyValue0123456789abcdefghijklmnop1,a text,TRUE,p1\r\n" +
		`two,MadeUpKeyValue0123456789abcdefghijklmnop2,,false,"p1, p2"` + "\r\n" +
		"three,MadeUpKeyValue0123456789abcdefghijklmnop3,,,'p1,p2'\r\n" +
		"known,MadeUpKeyValue0123456789abcdefghijklmnop0,,true,p2\r\n" +
		"none,MadeUpKeyValue0123456789abcdefghijklmnop4,,true,\r\n"
	got := command(t, done, nil, "", "-from", folder(t, map[string]string{
		"plans.json": plans, "api-keys.json": oneKey, "import.csv": file}))
	for _, want := range []string{
		"key import.csv:3 one +key of plan Bronze, value kept\n",
		"  description +no equivalent",
		"key import.csv:4 two +key of plan Bronze \\+ Gold, value kept, revoked: not enabled\n",
		"key import.csv:5 three +key of plan Bronze \\+ Gold, value kept\n",
		"key k1 Zoë +key of plan Gold, value kept\n",
		"key import.csv:7 none +no equivalent: no usage plan",
		", 4 keys: 0 with a new value, 1 revoked. 2 lines",
	} {
		if !matches(want, got) {
			t.Errorf("want %s in %s", want, got)
		}
	}
	for text, want := range map[string]string{
		"id,value\n1,2\n":               `it has no column "name"`,
		"name,key,enabled\na,b,ja\n":    "line 2: enabled must be true or false",
		"name,key\na,\"b\nc,d\n":        "invalid quotes",
		"key,name,usageplanids\na,b,p9": "keys of usage plan p9: unknown plan",
	} {
		at := filepath.Join(folder(t, map[string]string{"keys.csv": text}), "keys.csv")
		if got := command(t, failedSome, nil, "", "-from", at); !strings.Contains(got, want) {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

// What is missing in an export, or cannot be taken over, is refused or has a line.
func TestMissing(t *testing.T) {
	const unlisted = `keys of usage plan Bronze \(p1\) +no equivalent: the export has no list of them: aws ` +
		`apigateway get-usage-plan-keys --usage-plan-id p1\n`
	for _, test := range []struct {
		files  map[string]string
		want   string
		status int
	}{
		{map[string]string{"plans.json": bronze, "keys.json": oneKey}, unlisted, done},
		{map[string]string{"plans.json": bronze, "keys.json": oneKey, "p1.json": ""},
			"p1.json is empty, as a failed command", failedSome},
		{map[string]string{"plans.json": bronze, "p1.json": `{"items": []}`}, " 0 lines without", done},
		{map[string]string{"plans.json": bronze, "p1.json": `[]`}, " 0 lines without", done},
		{map[string]string{"plans.json": bronze, "old.json": strings.Replace(bronze, "20", "30", 1)},
			"item p1 is in the export twice, and differs", failedSome},
		{map[string]string{"plans.json": "Zo\xeb"}, "is neither UTF-8 nor UTF-16", failedSome},
		{map[string]string{"plans.json": "ITEMS\tp1\tBronze"}, "is not JSON or YAML of the AWS CLI",
			failedSome},
		{map[string]string{"plans.json": `{"id": "p1"}`}, "plans.json has no items", failedSome},
		{map[string]string{"plans.json": bronze, "p1.json": `{"items": []}`, "notes.txt": "x"},
			"file notes.txt +no equivalent: not read", done},
		{map[string]string{"plans.json": strings.Replace(bronze, "name", "newField", 1), "p1.json": `[]`},
			"field newField of usage plans +no equivalent: 1 items", done},
		{map[string]string{"plans.json": strings.Replace(bronze, `"throttle": {"burstLimit": 20, "rateLimit": 10.0}`,
			`"quota": {"limit": 2000000000, "period": "MONTH"}`, 1)},
			"quota 2000000000 a month +no equivalent: the nearest limit is 1,000,000,000 per calendar month",
			done},
		{map[string]string{"plans.json": strings.Replace(bronze, `20, "rateLimit": 10.0`, `1, "rateLimit": 700`, 1)},
			"rate 700 a second, burst 1 +no equivalent: the nearest limit is 1 per 2 milliseconds", done},
		{map[string]string{"plans.json": strings.Replace(bronze, `"stage": "prod"`,
			`"stage": "prod", "throttle": {"/a/GET": {"rateLimit": 0, "burstLimit": 0}}`, 1)},
			"method abc1234567/prod GET /a, .*no equivalent: it allows no call", done},
	} {
		if got := command(t, test.status, nil, "", "-from", folder(t, test.files)); !matches(test.want, got) {
			t.Errorf("%q: want %s in %s", test.files, test.want, got)
		}
	}
}
