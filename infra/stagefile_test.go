package main

import (
	"strings"
	"testing"

	"tidegate/infra/settings"
)

// Synthesis refuses invalid settings by name.
func TestSynthesisRefusesSettings(t *testing.T) {
	for want, change := range map[string]func(p *settings.Props){
		"store=redis: ": func(p *settings.Props) { p.Kind = "redis" },
		"callers=arn:aws:execute-api:eu-west-1:111122223333:*: ": func(p *settings.Props) {
			p.Callers = []string{"arn:aws:execute-api:eu-west-1:111122223333:*"}
		},
	} {
		if _, err := synthesised(with(settings.Default("dev"), change)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %s", err, want)
		}
	}
}

// The settings of a stage are those of its file; only dev needs none.
func TestStageFile(t *testing.T) {
	folder := t.TempDir()
	file := settings.StageFile{}
	if err := file.Set("prod", map[string]string{"changesLockDays": "30"}); err != nil {
		t.Fatal(err)
	}
	if err := file.Write(folder, "prod"); err != nil {
		t.Fatal(err)
	}
	p, err := stageProps(folder, "prod")
	if err != nil || p.ChangesLockDays != 30 || p.Stage != "prod" || !p.Keep {
		t.Errorf("got %+v, %v, want prod with a lock", p, err)
	}
	if p, err = stageProps(folder, "dev"); err != nil || p.Stage != "dev" || p.Keep {
		t.Errorf("got stage %s, %v, want dev", p.Stage, err)
	}
	file.Settings["cidr"] = "10.0.0.0/16" // by hand
	if err := file.Write(folder, "qa"); err != nil {
		t.Fatal(err)
	}
	for stage, want := range map[string]string{
		"beta":    "infra/" + folder + "/beta.json is missing: ./scripts/stage beta makes it",
		"qa":      "cidr=10.0.0.0/16: was 10.42.0.0/20, and cannot chan",
		"../prod": "must be 2 to 12 lower-case letters",
	} {
		if _, err := stageProps(folder, stage); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", stage, err, want)
		}
	}
}
