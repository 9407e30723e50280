package repocheck

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	script = regexp.MustCompile(`\./scripts/([\w-]+)((?:[ \t]+[^\s` + "`" + `|#&;)(]+)*)`)
	option = regexp.MustCompile(`^-[a-z][\w-]*`)
	goTest = regexp.MustCompile(`go (?:-C (\S+) )?test((?:[ \t]+[^\s` + "`" + `|#&;)(]+)+)`)
)

// helped are the commands of the program tidegate: package local compares their flags with
// their help. programs has the folders of programs that parse the flags of other scripts.
var (
	helped   = []string{"run", "migrate", "verify", "restore"}
	programs = map[string]string{"load": "local/bench/load", "stage": "infra/stage", "bench": "local/bench"}
)

// Scripts and their flags on the pages exist. So do the packages and tests of go test.
func TestCommands(t *testing.T) {
	found := 0
	texts := pages(t)
	delete(texts, root+"/CHANGELOG.md") // names commands that went
	for page, text := range texts {
		for _, call := range script.FindAllStringSubmatch(text, -1) {
			found++
			checkScript(t, page, call[1], strings.Fields(call[2]))
		}
		for _, call := range goTest.FindAllStringSubmatch(text, -1) {
			found++
			checkGoTest(t, page, call[1], strings.Fields(call[2]))
		}
	}
	if found < 40 {
		t.Errorf("the pages have only %d commands", found)
	}
}

// checkScript reports a script that does not exist, and flags that neither it nor its
// program has.
func checkScript(t *testing.T, page, call string, arguments []string) {
	t.Helper()
	text, err := os.ReadFile(path.Join(root, "scripts", call))
	if err != nil {
		t.Errorf("%s: there is no ./scripts/%s", page, call)
		return
	}
	if slices.Contains(helped, call) {
		return
	}
	known := string(text)
	if folder := programs[call]; folder != "" {
		files, _ := filepath.Glob(path.Join(root, folder, "*.go")) // the pattern is good
		for _, file := range files {
			program, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			known += strings.ReplaceAll(string(program), `"`, "-")
		}
	}
	for _, word := range arguments {
		if name := option.FindString(word); !strings.Contains(known, name) {
			t.Errorf("%s: ./scripts/%s has no %s", page, call, name)
		}
	}
}

// checkGoTest reports packages without tests, in the folder of -C, and names that no test
// of them has.
func checkGoTest(t *testing.T, page, folder string, arguments []string) {
	t.Helper()
	var files []string
	run := ""
	for i, word := range arguments {
		switch {
		case word == "." || strings.HasPrefix(word, "./"):
			pattern := path.Join(root, folder, strings.TrimSuffix(word, "/..."), "*_test.go")
			matches, _ := filepath.Glob(pattern) // the pattern is good
			if len(matches) == 0 {
				t.Errorf("%s: %s has no tests", page, path.Join(folder, word))
			}
			files = append(files, matches...)
		case word == "-run" && i+1 < len(arguments):
			run = strings.Trim(arguments[i+1], "'")
		}
	}
	if len(files) == 0 || run == "" {
		return
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, test := range declared.FindAllStringSubmatch(string(text), -1) {
			if matched, err := regexp.MatchString(run, test[1]); err == nil && matched {
				return
			}
		}
	}
	t.Errorf("%s: no test matches -run %s", page, run)
}
