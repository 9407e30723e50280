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
	maps.Copy(elsewhere, map[string]string{"stage": "qa", "keep": "true", "metrics": "true",
		"cloudWatchDashboard": "false"})
	for _, name := range settings.Names() {
		if name == "nag" || name == "jwtJwks" { // TestNag; TestJWKS, since it excludes jwtJwksUrl
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
