//go:build unix

package attacks

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// manyFields is one mapping of 190,000 fields in just under 2 MB.
func manyFields() string {
	var b strings.Builder
	for n := range 190_000 {
		_, _ = fmt.Fprintf(&b, "f%06d: 1\n", n)
	}
	return b.String()
}

// bombs are a content type and a small file that is costly to parse, by name.
func bombs() map[string][2]string {
	const yaml, json = "application/yaml", "application/json"
	lol := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'z'; c++ {
		p := string(c - 1)
		lol += fmt.Sprintf("%c: &%c [*%s,*%s,*%s,*%s,*%s,*%s,*%s,*%s,*%s]\n", c, c, p, p, p, p, p, p, p, p, p)
	}
	deep := strings.Repeat
	return map[string][2]string{
		"190,000 fields":        {yaml, manyFields()},
		"aliases of aliases":    {yaml, lol},
		"an alias of itself":    {yaml, "plans: &a [*a]\n"},
		"merges":                {yaml, "a: &a {x: 1}\nplans: [" + deep("{<<: *a},", 100_000) + "]\n"},
		"100,000 documents":     {yaml, deep("---\nversion: 1\n", 100_000)},
		"lists in lists":        {yaml, "plans: " + deep("[", 500_000) + "\n"},
		"mappings in mappings":  {yaml, "plans: " + deep("{a: ", 300_000) + "\n"},
		"deep indentation":      {yaml, indented(1800)},
		"500,000 dashes":        {yaml, "plans:\n" + deep("- ", 500_000) + "x\n"},
		"anchors":               {yaml, deep("&a ", 500_000) + "x\n"},
		"a text of 2 MB":        {yaml, "plans: \"" + deep("\\u00e9", 300_000) + "\"\n"},
		"one field, many times": {yaml, deep("plans: []\n", 150_000)},
		"YAML over its bound":   {yaml, deep("# \n", 2_000_000)},
		"binary tag":            {yaml, "plans: !!binary " + deep("A", 1_000_000) + "\n"},
		"lists in lists, JSON":  {json, deep("[", 1_000_000)},
		"objects in objects":    {json, deep(`{"plans":`, 100_000)},
		"one name, many times":  {json, "{" + strings.TrimSuffix(deep(`"plans":[],`, 100_000), ",") + "}"},
		"200,000 plans":         {json, `{"plans":[` + strings.TrimSuffix(deep(`{},`, 200_000), ",") + `]}`},
		"a long number":         {json, `{"plans":` + deep("9", 1_000_000) + `}`},
		"escapes":               {json, `{"plans":"` + deep(`\u0000`, 300_000) + `"}`},
	}
}

func indented(depth int) string {
	var b strings.Builder
	for n := range depth {
		b.WriteString(strings.Repeat(" ", n) + "a:\n")
	}
	return b.String()
}

// A file of policies cannot keep the dashboard busy: each is refused within 10 s, before
// the function times out.
func TestAttackBombs(t *testing.T) {
	a, i := attack(t, "YAML and JSON bombs",
		"aliases, merges, nesting, duplicates, 190,000 fields, long numbers and texts, as a dry run "+
			"of an import by a token of scope write")
	header := i.machineToken(t, "write")
	for name, bomb := range bombs() {
		t.Run(name, func(t *testing.T) {
			a.probe()
			path := map[string]string{"application/yaml": "/api/v1/policy.yaml",
				"application/json": "/api/v1/policy"}[bomb[0]]
			start := time.Now()
			got := i.site.send(t, http.MethodPut, path+"?dry_run=true", bomb[1], "Authorization",
				"Bearer "+header, "Content-Type", bomb[0])
			t.Logf("%d after %s", got.status, time.Since(start).Round(time.Millisecond))
			if got.status < 400 || got.status >= 500 || len(got.body) > 100_000 {
				t.Errorf("%d, %d bytes: %.300s", got.status, len(got.body), got.body)
			}
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
}
