package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"
)

const twoPlans = `{"items": [
	{"id": "p1", "name": "Bronze", "apiStages": [{"apiId": "a1", "stage": "prod"}],
	 "quota": {"limit": 2000000000, "offset": 0, "period": "MONTH"}},
	{"id": "p2", "name": "Gold", "apiStages": [{"apiId": "a1", "stage": "prod"}],
	 "throttle": {"rateLimit": 100, "burstLimit": 200}}]}`

const oneMember = `{"items": [{"id": "k1", "type": "API_KEY", "name": "acme"}]}`

// exported writes the files of an export, and returns their folder.
func exported(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// A plan without a list of its keys is refused: its members would lose what they pay for.
// An empty file is such a plan too; a plan without keys has an empty list.
func TestPlanWithoutItsKeys(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"missing": {"plans.json": twoPlans, "p1.json": oneMember},
		"empty":   {"plans.json": twoPlans, "p1.json": oneMember, "p2.json": ""},
	} {
		_, err := readExport(exported(t, files), nil)
		want := "usage plan Gold (p2): the export has no list of its keys"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for name, files := range map[string]map[string]string{
		"no members": {"plans.json": twoPlans, "p1.json": oneMember, "p2.json": `{"items": []}`},
		"plans only": {"plans.json": twoPlans},
	} {
		if _, err := readExport(exported(t, files), nil); err != nil {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A quota above the bound of a limit has a line of its own.
func TestQuotaAboveTheBound(t *testing.T) {
	files := map[string]string{"plans.json": twoPlans, "p1.json": oneMember, "p2.json": `{"items": []}`}
	e, err := readExport(exported(t, files), nil)
	if err != nil {
		t.Fatal(err)
	}
	var table bytes.Buffer
	fromUsagePlans(e).print(&table)
	for line := range strings.Lines(table.String()) {
		if strings.Contains(line, "quota 2000000000 a month") {
			if !strings.Contains(line, "no equivalent") || !strings.Contains(line, "1000000000") {
				t.Errorf("got %s", line)
			}
			return
		}
	}
	t.Errorf("the quota has no line:\n%s", table.String())
}

// A byte order mark is skipped, and UTF-16 is named.
func TestEncodings(t *testing.T) {
	utf16Of := func(order binary.AppendByteOrder, mark bool) string {
		text := twoPlans
		if mark {
			text = "\ufeff" + text
		}
		var b []byte
		for _, unit := range utf16.Encode([]rune(text)) {
			b = order.AppendUint16(b, unit)
		}
		return string(b)
	}
	for name, c := range map[string]struct{ text, want string }{
		"UTF-8 with a mark":     {"\ufeff" + twoPlans, ""},
		"UTF-16, little endian": {utf16Of(binary.LittleEndian, true), "plans.json is UTF-16"},
		"UTF-16, big endian":    {utf16Of(binary.BigEndian, true), "plans.json is UTF-16"},
		"UTF-16 without a mark": {utf16Of(binary.LittleEndian, false), "plans.json is UTF-16"},
		"half a mark":           {"\xef\xbb", "not JSON"},
	} {
		files := map[string]string{"plans.json": c.text, "p1.json": oneMember, "p2.json": `{"items": []}`}
		_, err := readExport(exported(t, files), nil)
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
