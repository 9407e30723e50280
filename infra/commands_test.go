package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tidegate/infra/settings"
)

var (
	cdkCommand   = regexp.MustCompile("npx cdk (deploy|destroy|diff|synth|bootstrap)((?: -[^`#\n]*)?)")
	stageCommand = regexp.MustCompile("\\./scripts/stage((?:[^`#\n]*\\\\\n)*[^`#\n]*)")
	capitals     = regexp.MustCompile(`\b[A-Z]{3,}\b`)
)

// sample returns the value that an upper-case word of the pages stands for.
func sample(flag string) string {
	for word, value := range map[string]string{"alarmEmail=YOU": "alarmEmail=ops@example.com",
		"STAGE": "qa", "NAME=VALUE": "logLevel=warn", "FLAG=VALUE…": "logLevel=warn"} {
		flag = strings.ReplaceAll(flag, word, value)
	}
	return capitals.ReplaceAllStringFunc(flag, strings.ToLower)
}

// Every command of the pages that deploys names its stage and no flag, since the flags are
// in the stage's file, and every command that changes such a file has valid flags.
func TestCommandsOfThePages(t *testing.T) {
	pages := append(glob(t, filepath.Join("..", "docs", "*.md")), "../README.md", "../local/verify/rows.md")
	deployed, staged := 0, 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range cdkCommand.FindAllStringSubmatch(string(text), -1) {
			deployed++
			context := contextOf(strings.Fields(m[2]))
			named := slices.ContainsFunc(context, func(flag string) bool {
				return strings.HasPrefix(flag, "stage=")
			})
			if m[1] != "bootstrap" && m[1] != "synth" && !named {
				t.Errorf("%s: %s does not name its stage", page, m[0])
			}
			for _, flag := range context {
				if name, _, _ := strings.Cut(flag, "="); name != "stage" && name != "nag" {
					t.Errorf("%s: %s sets %s, which belongs into the stage's file", page, m[0], name)
				}
			}
		}
		for _, m := range stageCommand.FindAllStringSubmatch(string(text), -1) {
			words := strings.Fields(strings.ReplaceAll(sample(m[1]), "\\\n", " "))
			if end := slices.Index(words, "&&"); end >= 0 {
				words = words[:end]
			}
			if len(words) == 0 {
				continue // the command by its name
			}
			staged++
			values := map[string]string{}
			for _, word := range words[1:] {
				name, value, _ := strings.Cut(word, "=")
				values[name] = value
			}
			if err := new(settings.StageFile).Set(words[0], values); err != nil {
				t.Errorf("%s: %s: %v", page, m[0], err)
			}
		}
	}
	if deployed < 8 || staged < 4 {
		t.Errorf("got %d commands of the CDK and %d of stages, want at least 8 and 4", deployed, staged)
	}
}

// contextOf returns the values of -c among arguments.
func contextOf(arguments []string) []string {
	var all []string
	for i, argument := range arguments {
		if argument == "-c" && i+1 < len(arguments) {
			all = append(all, arguments[i+1])
		}
	}
	return all
}
