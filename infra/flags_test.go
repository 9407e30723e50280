package main

import (
	"maps"
	"reflect"
	"strings"
	"testing"

	"tidegate/infra/settings"
)

func propsOf(t *testing.T, flags map[string]string) settings.Props {
	t.Helper()
	p, err := settings.Read(flags)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// An invalid flag fails synthesis with an error that names the flag.
func TestSynthesisRefusesFlags(t *testing.T) {
	for flag, value := range map[string]string{
		"store":   "redis",
		"callers": "arn:aws:execute-api:eu-west-1:111122223333:*",
	} {
		if _, err := synthesised(map[string]string{flag: value}); err == nil ||
			!strings.Contains(err.Error(), "-c "+flag+"="+value+": ") {
			t.Errorf("got %v, want an error on -c %s", err, flag)
		}
	}
}

// The flags of a stage are those of its file. Flags beside a file are refused, so that the
// next deployment cannot lack them; only dev needs no file.
func TestStageFile(t *testing.T) {
	folder := t.TempDir()
	file := settings.StageFile{}
	if err := file.Set("prod", map[string]string{"changesLockDays": "30"}); err != nil {
		t.Fatal(err)
	}
	if err := file.Write(folder, "prod"); err != nil {
		t.Fatal(err)
	}
	p, err := stageProps(folder, map[string]string{"stage": "prod", "nag": "true"})
	if err != nil || p.ChangesLockDays != 30 || !p.Nag || p.Stage != "prod" {
		t.Errorf("got %+v, %v, want prod with a lock and nag", p.ChangesLockDays, err)
	}
	if p, err = stageProps(folder, map[string]string{"logLevel": "warn"}); err != nil || p.Stage != "dev" ||
		p.LogLevel != "warn" {
		t.Errorf("got stage %s, %v, want dev with its flag", p.Stage, err)
	}
	file.Flags["cidr"] = "10.0.0.0/16" // by hand
	if err := file.Write(folder, "qa"); err != nil {
		t.Fatal(err)
	}
	for want, given := range map[string]map[string]string{
		"./scripts/stage prod logLevel=warn":                     {"stage": "prod", "logLevel": "warn"},
		"infra/" + folder + "/beta.json is missing":              {"stage": "beta"},
		"-c cidr=10.0.0.0/16: was 10.42.0.0/20, and cannot chan": {"stage": "qa"},
		"must be 2 to 12 lower-case letters":                     {"stage": "../prod"},
	} {
		if _, err := stageProps(folder, given); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %s", given, err, want)
		}
	}
}

// Every flag has an effect: without it the props change or are invalid, in stage prod or
// in another stage.
func TestEveryFlagHasAnEffect(t *testing.T) {
	many := maps.Clone(everything)
	maps.Copy(many, map[string]string{
		"keep": "false", "cidr": "10.0.0.0/16", "snapshotDays": "3", "checkMemory": "256",
		"adminMemory": "1024", "checkConcurrency": "none",
		"adminConcurrency": "2", "logLevel": "debug", "adminUser": "ada", "logDays": "30", "natGateways": "3",
		"maxStorageGB": "9", "maxECPUs": "5000",
		"nodeType": "cache.r7g.xlarge", "example": "true", "shards": "3", "metrics": "false",
		"accessLogs": "false",
	})
	elsewhere := maps.Clone(many)
	maps.Copy(elsewhere, map[string]string{"stage": "qa", "keep": "true", "metrics": "true"})
	for _, name := range settings.Names() {
		// TestNag; TestJWKS and TestJWTIssuers, since these exclude jwtJwksUrl
		if name == "nag" || name == "jwtJwks" || name == "jwtIssuers" {
			continue
		}
		if !changes(t, many, name) && !changes(t, elsewhere, name) {
			t.Errorf("-c %s changes nothing, or this test has no value for it", name)
		}
	}
}

// changes reports whether the props without a flag differ from those with all flags.
func changes(t *testing.T, all map[string]string, name string) bool {
	t.Helper()
	if all[name] == "" {
		return false
	}
	without := maps.Clone(all)
	delete(without, name)
	p, err := settings.Read(without)
	return err != nil || !reflect.DeepEqual(p, propsOf(t, all))
}
